//go:build linux || darwin

package file

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/coord/register"
)

func TestWhoMayLockADirectoryWithoutWritingToIt(t *testing.T) {
	for _, d := range []struct {
		mode  uint32
		group bool // which works in it
		may   bool
	}{
		{0o700, false, false},
		{0o750, false, true},
		{0o704, false, true},
		{0o755, false, true},
		{0o770, true, false},
		{0o774, true, true},
		{0o711, false, false},
	} {
		o, st := &owners{group: d.group}, &unix.Stat_t{}
		set(&st.Mode, d.mode)
		if may := o.othersMayLock(st); may != d.may {
			t.Errorf("mode %o, of a group %t: %t", d.mode, d.group, may)
		}
	}
}

// set sets a number that has another size on each system.
func set[T uint16 | uint32](n *T, to uint32) { *n = T(to) }

func TestANoteMayHaveNoText(t *testing.T) {
	for _, text := range []string{"", "text"} {
		note := "\x00\x05topic" + text
		if got, ok := textFor("topic", []byte(note)); !ok || string(got) != text {
			t.Errorf("%q: %q, %t", note, got, ok)
		}
	}
	for _, note := range []string{"", "\x00", "\x00\x05", "\x00\x05topi", "\x00\x05other", "\xff\xfftopic"} {
		if got, ok := textFor("topic", []byte(note)); ok {
			t.Errorf("%q is taken for one of the topic: %q", note, got)
		}
	}
}

// A note that is too long for the pipe lies in a file, until it has been heard.
func TestALongNoteLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	heard := make(chan string, 10)
	stop, err := s.Listen(t.Context(), "t", func(note []byte) { heard <- string(note) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	files := func() (n int) {
		_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				n++
			}
			return nil
		})
		return n
	}
	for range 2 { // a register has two files
		put(t, s, "k", "first", register.Note{Topic: "t", Text: []byte("short")})
		for <-heard != "short" {
		}
	}
	before := files()
	long := strings.Repeat("long", 2000)
	for range 3 {
		put(t, s, "k", "next", register.Note{Topic: "t", Text: []byte(long)})
		for <-heard != long {
		}
	}
	if after := files(); after != before {
		t.Errorf("%d files, after %d", after, before)
	}
}

// A value is written into the file that the one before the last was in.
func TestAValueThatHasBecomeShortTakesNoRoom(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	old := register.Version{}
	for _, size := range []int{1 << 20, 1 << 20, 10, 10} {
		next := register.NewVersion()
		if _, err := s.Swap(t.Context(), register.Swap{Key: "k", Old: old, Next: next, Value: make([]byte, size)}); err != nil {
			t.Fatal(err)
		}
		old = next
	}
	size := int64(0)
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				size += info.Size()
			}
		}
		return err
	})
	if err != nil || size > 100_000 {
		t.Errorf("a value of ten bytes takes %d, %v", size, err)
	}
}
