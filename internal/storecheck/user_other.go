//go:build !linux

package storecheck

import "testing"

// AsUser runs do with the rights of another user of the machine. Only Linux can do that for a part of a process: elsewhere the
// test is skipped.
func AsUser(t testing.TB, uid int, do func()) {
	t.Helper()
	t.Skip("acting for other users takes Linux")
}
