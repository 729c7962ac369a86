// Package tools pins the programs that lint runs, and has the one that a release is checked with. It is a module of its own,
// so that users of turnwise see none of it.
package tools
