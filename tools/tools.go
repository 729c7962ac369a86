// Package tools pins what lint runs, and holds what a release is checked with. It is a module of its own, so that users
// of turnwise see none of it.
package tools
