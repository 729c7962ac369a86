// Package fences shows on real servers and with real clients that a stale holder writes nothing: each fence by itself, and
// all of them against a process that is stopped while it holds.
package fences
