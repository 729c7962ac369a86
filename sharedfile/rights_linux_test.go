package sharedfile

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
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

// A file that is all holes takes no space. Whoever may put one at the path does not have the next writer fill the disk.
func TestAFileOfHolesStaysOne(t *testing.T) {
	f := open(t)
	put := func(data string) {
		t.Helper()
		require.NoError(t, os.WriteFile(f.Path()+".new", []byte(data), 0o600))
		require.NoError(t, os.Truncate(f.Path()+".new", 1<<28))
		made, err := os.OpenFile(f.Path()+".new", os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = made.WriteAt([]byte(data), 1<<27+1)
		require.NoError(t, errors.Join(err, made.Close(), os.Rename(f.Path()+".new", f.Path())))
	}
	put("adopted")
	publish(t, f, 1, "first")
	put("spared")
	publish(t, f, 2, "second")
	all, err := filepath.Glob(f.dir + "/*")
	require.NoError(t, err)
	found := map[string]bool{}
	for _, path := range all {
		v, err := os.Open(path)
		require.NoError(t, err)
		defer v.Close()
		st, err := v.Stat()
		require.NoError(t, err)
		assert.Less(t, st.Sys().(*syscall.Stat_t).Blocks, int64(1<<12), "blocks of 512 bytes: the holes were filled")
		if st.Size() < 1<<20 {
			continue
		}
		assert.EqualValues(t, 1<<28, st.Size())
		for _, at := range []int64{0, 1<<27 + 1} {
			b := make([]byte, 10)
			_, err = v.ReadAt(b, at)
			require.NoError(t, err)
			found[strings.Trim(string(b), "\x00")] = true
		}
	}
	assert.Equal(t, map[string]bool{"adopted": true, "spared": true}, found)
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
