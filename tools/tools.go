// Package tools pins what lint runs, and holds what a release is checked with. It is a module of its own, so that none
// of it is seen by those who use turnwise.
package tools
