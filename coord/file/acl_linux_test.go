package file

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/coord/driver"
)

// withACL gives a directory an access control list with an entry for a user who is none of ours.
func withACL(t *testing.T, dir string, group, named uint16) {
	t.Helper()
	b := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range []struct {
		tag, may uint16
		whom     uint32
	}{{0x01, 7, 1<<32 - 1}, {aclUser, named, 12349}, {aclOwnGroup, group, 1<<32 - 1}, {aclMask, 7, 1<<32 - 1}, {0x20, 0, 1<<32 - 1}} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.may)
		b = binary.LittleEndian.AppendUint32(b, e.whom)
	}
	if err := unix.Setxattr(dir, "system.posix_acl_access", b, 0); err == unix.ENOTSUP {
		t.Skip("there are no access control lists here")
	} else {
		require.NoError(t, err)
	}
}

// With such a list, the mode says that the group may write, and means another user.
func TestTheGroupMayWriteOnlyIfTheAccessControlListSaysSo(t *testing.T) {
	for _, group := range []uint16{0, 4, 5} {
		dir := t.TempDir()
		withACL(t, dir, group, 7)
		st, err := os.Stat(dir)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o770), st.Mode().Perm())
		_, err = Open(t.Context(), dir)
		assert.ErrorIs(t, err, driver.ErrDenied, "%o", group)
	}
	dir := t.TempDir()
	withACL(t, dir, 7, 7)
	assert.True(t, open(t, dir).place.Load().root.by.group)
}

func TestWhoMayOnlyReadByAnAccessControlListKeepsNobodyOut(t *testing.T) {
	for _, group := range []uint16{0, 7} { // whose directory it is then
		dir := t.TempDir()
		withACL(t, dir, group, 5)
		if group == 0 {
			require.NoError(t, unix.Chmod(dir, 0o750)) // the most that anybody gets
		}
		stranger, err := os.Open(dir)
		require.NoError(t, err)
		defer stranger.Close()
		require.NoError(t, flock(stranger, unix.LOCK_EX))
		put(t, open(t, dir), "k", "x")
		withACL(t, filepath.Join(dir, keptDir), group, 5)
		_, err = Open(t.Context(), dir)
		assert.ErrorIs(t, err, driver.ErrDenied, "he could lock what is in it")
	}
}

func TestAListThatMakesNoSenseGivesTheGroupNothing(t *testing.T) {
	for _, b := range [][]byte{nil, {2}, {2, 0, 0, 0, 1}, {1, 0, 0, 0}, make([]byte, 12)} {
		assert.Equal(t, acl{there: true, looks: true}, parseACL(b))
	}
}
