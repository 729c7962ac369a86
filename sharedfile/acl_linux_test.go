package sharedfile

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/turnwise/turnwise/coord"
)

// entry is a line of an access control list; the numbers are those of the kernel.
type entry struct {
	tag, may uint16
	who      uint32
}

const (
	nobodyNamed = 1<<32 - 1
	listNamed   = 0x02
	listMask    = 0x10
)

func list(entries ...entry) []byte {
	b := binary.LittleEndian.AppendUint32(nil, listVersion)
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.may)
		b = binary.LittleEndian.AppendUint32(b, e.who)
	}
	return b
}

// setList sets a list, or skips the test where there are none.
func setList(t *testing.T, path, attribute string, entries ...entry) {
	t.Helper()
	err := syscall.Setxattr(path, attribute, list(entries...), 0)
	if err == syscall.ENOTSUP {
		t.Skip("this file system has no access control lists")
	}
	require.NoError(t, err)
}

// published publishes twice, in both ways, and calls check with the path, with all versions and with what was spared.
func published(t *testing.T, prepare func(f *File), check func(path string)) {
	for _, copies := range []bool{false, true} {
		f := open(t)
		f.copy = copies
		prepare(f)
		for stamp := range coord.Token(2) {
			publish(t, f, stamp+1, "new")
			check(f.Path())
			all, err := filepath.Glob(f.dir + "/*")
			require.NoError(t, err)
			require.NotEmpty(t, all)
			for _, v := range all {
				check(v)
			}
		}
	}
}

// Where somebody is named beyond the mode, the mode's bits of the group are the mask, and not what the group may.
func TestANewVersionKeepsTheListOfThoseWhoMayReadIt(t *testing.T) {
	const alice = 4713
	published(t, func(f *File) {
		require.NoError(t, os.WriteFile(f.Path(), []byte("made by hand"), 0o600))
		setList(t, f.Path(), listAttribute, entry{listOwner, 6, nobodyNamed}, entry{listNamed, 6, alice},
			entry{listGroup, 0, nobodyNamed}, entry{listMask, 6, nobodyNamed}, entry{listOther, 0, nobodyNamed})
	}, func(path string) {
		got := []byte(listAt(path))
		owner := uint16(4)
		if st, err := os.Lstat(path); assert.NoError(t, err) && st.Mode()&0o200 != 0 {
			owner = 6
		}
		assert.Equal(t, list(entry{listOwner, owner, nobodyNamed}, entry{listNamed, 4, alice},
			entry{listGroup, 0, nobodyNamed}, entry{listMask, 4, nobodyNamed}, entry{listOther, 0, nobodyNamed}), got, path)
	})
}

// A directory can have a list for all that is made in it. Who is named there may not read what was not his to read.
func TestANewVersionGetsNoListFromItsDirectory(t *testing.T) {
	published(t, func(f *File) {
		require.NoError(t, os.WriteFile(f.Path(), []byte("made by hand"), 0o600))
		require.NoError(t, os.Chmod(f.Path(), 0o640))
		setList(t, filepath.Dir(f.Path()), "system.posix_acl_default", entry{listOwner, 7, nobodyNamed}, entry{listNamed, 7, 4713},
			entry{listGroup, 7, nobodyNamed}, entry{listMask, 7, nobodyNamed}, entry{listOther, 5, nobodyNamed})
	}, func(path string) {
		assert.Nil(t, []byte(listAt(path)), path)
		st, err := os.Lstat(path)
		require.NoError(t, err)
		assert.EqualValues(t, 0o440, st.Mode().Perm()&^0o200, path)
	})
}

// A list that cannot be given away with the file says who is shut out: then nobody but the owner reads it.
func TestAListThatMakesNoSenseLetsNobodyRead(t *testing.T) {
	f := open(t)
	require.NoError(t, os.WriteFile(f.Path(), []byte("made by hand"), 0o600))
	require.NoError(t, os.Chmod(f.Path(), 0o644))
	like, err := os.Open(f.Path())
	require.NoError(t, err)
	defer like.Close()
	r, err := rightsOf(like)
	require.NoError(t, err)
	r.list = accessList{}
	out, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer out.Close()
	require.NoError(t, resemble(out, r, 0))
	st, err := out.Stat()
	require.NoError(t, err)
	assert.EqualValues(t, 0o400, st.Mode().Perm())
}

// Somebody who is in the group and so may not read, though all others may, is not among all others once the group is another one.
func TestWhoIsShutOutByTheGroupStaysOut(t *testing.T) {
	shut := list(entry{listOwner, 6, nobodyNamed}, entry{listNamed, 4, 4713},
		entry{listGroup, 0, nobodyNamed}, entry{listMask, 4, nobodyNamed}, entry{listOther, 4, nobodyNamed})
	out, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer out.Close()
	if err := accessList(shut).give(out, true, 0); err == syscall.ENOTSUP {
		t.Skip("this file system has no access control lists")
	} else {
		require.NoError(t, err)
	}
	st, err := out.Stat()
	require.NoError(t, err)
	assert.Zero(t, st.Mode().Perm()&0o007)
}
