//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
)

func open(t testing.TB, dir string, opts ...Option) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// put swaps whatever stands in a register.
func put(t testing.TB, s *Store, key, value string, notes ...register.Note) register.Item {
	t.Helper()
	item, err := s.Read(t.Context(), key)
	if err == nil {
		item, err = s.Swap(t.Context(), register.Swap{
			Key: key, Old: item.Version, Next: register.NewVersion(), Value: []byte(value), Notes: notes,
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return item
}

func value(t testing.TB, s *Store, key string) string {
	t.Helper()
	item, err := s.Read(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(item.Value)
}

// path is where a register is.
func path(dir, key string) string {
	return filepath.Join(dir, registersDir, shardName(shardOf(nameOf(key))), nameOf(key))
}

// soon waits for what must happen.
func soon(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("it does not happen: %s", what)
		}
	}
}

func TestWhatIsWrongIsSaidInOneLine(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("file", "")
	for _, d := range []string{"foreign", "open", "private", "old"} {
		if err := os.Mkdir(in(d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("foreign/passwords", "")
	write("old/layout", layoutHead+"0\n")
	if err := os.Chmod(in("open"), 0o777); err != nil {
		t.Fatal(err)
	}
	open(t, in("synced"), WithSync())
	open(t, in("unsynced"))
	for _, c := range []struct {
		what, dir string
		opts      []Option
		says      string
	}{
		{"no name", "", nil, "give one"},
		{"nothing above it", in("no/such/parent"), nil, in("no/such")},
		{"a file", in("file"), nil, "is a file"},
		{"something in a file", in("file/locks"), nil, "not a directory"},
		{"a name that is too long", in(strings.Repeat("x", 300)), nil, "name too long"},
		{"a directory with other files", in("foreign"), nil, "passwords"},
		{"a directory that everybody may write to", in("open"), nil, "chmod"},
		{"a private directory for a group", in("private"), []Option{WithGroup()}, "chmod 2770"},
		{"another layout", in("old"), nil, "another layout"},
		{"a directory that syncs", in("synced"), nil, "with WithSync"},
		{"a directory that does not sync", in("unsynced"), []Option{WithSync()}, "without WithSync"},
	} {
		s, err := Open(t.Context(), c.dir, c.opts...)
		if err == nil {
			s.Close()
			t.Errorf("%s is opened", c.what)
			continue
		}
		class := driver.ErrDenied
		switch c.what {
		case "no name", "a name that is too long":
			class = coord.ErrInvalid
		case "nothing above it", "a file", "something in a file":
			class = driver.ErrMissing
		}
		if !errors.Is(err, class) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func TestAFileSystemThatMachinesShareIsRefused(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no table of file systems to change")
	}
	dir := t.TempDir()
	kind := fileSystem(t, dir)
	was, had := unfit[kind]
	unfit[kind] = "NFS"
	defer func() {
		delete(unfit, kind)
		if had {
			unfit[kind] = was
		}
	}()
	for _, dir := range []string{dir, filepath.Join(dir, "new")} {
		if _, err := Open(t.Context(), dir); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "NFS") {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("a directory was made there all the same")
	}
	put(t, open(t, dir, WithAnyFileSystem()), "k", "x")
}

// mounted is a small file system in memory.
func mounted(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "none", dir).CombinedOutput(); err != nil {
		t.Skipf("a small file system takes root, and the right to mount: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	return dir
}

func TestAFullDiskChangesNothing(t *testing.T) {
	dir := mounted(t, "size=2m")
	s := open(t, filepath.Join(dir, "locks"))
	stop, heard := listen(t, s, "t")
	defer stop()
	before := put(t, s, "k", "before")
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 4<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	_, err := s.Swap(t.Context(), register.Swap{
		Key: "k", Old: before.Version, Next: register.NewVersion(), Value: make([]byte, 1<<20),
		Notes: []register.Note{{Topic: "t", Text: []byte("not applied")}},
	})
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "disk is full") || errors.Is(err, driver.ErrDenied) {
		t.Errorf("a swap on a full disk: %v", err)
	}
	if got := value(t, s, "k"); got != "before" {
		t.Errorf("the register is %q after a swap that failed", got)
	}
	n := 0
	if err := s.List(t.Context(), "", func(register.Item) bool { n++; return true }); err != nil || n != 1 {
		t.Errorf("List on a full disk shows %d: %v", n, err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	put(t, s, "k", "after", register.Note{Topic: "t", Text: []byte("applied")})
	if got := <-heard; got != "applied" {
		t.Errorf("a listener hears %q", got)
	}
}

// Somebody may be stopped while he has the lock that a new layout takes.
func TestALayoutIsNotReplacedBesideSomebodyWhoHasTheLock(t *testing.T) {
	dir := filepath.Join(folder(t), "locks")
	s := open(t, dir)
	kept, err := os.Open(filepath.Join(dir, keptDir))
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	if err := unix.Flock(int(kept.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(dir, layoutFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.place.Load().disown(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it does not wait: %v", err)
	}
	if now, err := os.ReadFile(filepath.Join(dir, layoutFile)); err != nil || string(now) != string(before) {
		t.Errorf("the layout was replaced: %v", err)
	}
}

// What stands in the directory's place may be nothing that locks can be kept in. Then nothing is remembered there, for however long.
func TestADirectoryThatIsReplacedBySomethingElseHasNoMemory(t *testing.T) {
	dir := filepath.Join(folder(t), "locks")
	s := open(t, dir)
	if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if m, err := s.Memory(t.Context()); err == nil {
		t.Errorf("it remembers %+v", m)
	}
}

// A disk may be full of files rather than of bytes. Then no folder can be made, and that is what is said.
func TestADiskFullOfFilesIsSaid(t *testing.T) {
	dir := mounted(t, "size=2m,nr_inodes=200")
	s := open(t, filepath.Join(dir, "locks"))
	for i := 0; ; i++ {
		err := os.WriteFile(filepath.Join(dir, fmt.Sprint("filler", i)), nil, 0o600)
		if errors.Is(err, unix.ENOSPC) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Listen(t.Context(), "line/new", func([]byte) {}); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("to listen where a folder would have to be made: %v", err)
	}
	_, err := s.Swap(t.Context(), register.Swap{Key: "line/new", Next: register.NewVersion(), Value: []byte("x")})
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("a swap: %v", err)
	}
}

func TestAReadOnlyFileSystemIsRefused(t *testing.T) {
	dir := mounted(t, "size=2m")
	locks := filepath.Join(dir, "locks")
	s, err := Open(t.Context(), locks)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "k", "x")
	s.Close()
	if out, err := exec.Command("mount", "-o", "remount,ro", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, d := range []string{locks, filepath.Join(dir, "new")} {
		if _, err := Open(t.Context(), d); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("%s: %v", d, err)
		}
	}
}

// listen collects what is heard; "" stands for nil.
func listen(t testing.TB, s *Store, topic string) (stop func(), heard chan string) {
	t.Helper()
	heard = make(chan string, 100000)
	stop, err := s.Listen(t.Context(), topic, func(note []byte) { heard <- string(note) })
	if err != nil {
		t.Fatal(err)
	}
	return stop, heard
}

// forgets makes sure that a store says that it has forgotten, and answers again once it was asked for its memory.
func forgets(t testing.TB, s *Store, before register.Memory) {
	t.Helper()
	sw := register.Swap{Key: "new", Next: register.NewVersion(), Value: []byte("x")}
	if _, err := s.Swap(t.Context(), sw); !errors.Is(err, register.ErrForgot) {
		t.Errorf("Swap: %v, want ErrForgot", err)
	}
	if _, err := s.Read(t.Context(), "k"); !errors.Is(err, register.ErrForgot) {
		t.Errorf("Read: %v, want ErrForgot", err)
	}
	if _, err := s.Keep(t.Context(), "k"); !errors.Is(err, register.ErrForgot) {
		t.Errorf("Keep: %v, want ErrForgot", err)
	}
	if err := s.Unkept(t.Context(), "kept"); !errors.Is(err, register.ErrForgot) {
		t.Errorf("Unkept: %v, want ErrForgot", err)
	}
	m, err := s.Memory(t.Context())
	if err != nil || m.ID == before.ID || m.For > time.Minute {
		t.Errorf("the memory is %v, %v, and was %v", m, err, before)
	}
	if it, err := s.Read(t.Context(), "new"); err != nil || !it.Version.IsZero() {
		t.Errorf("a swap that was refused was applied: %v, %v", it, err)
	}
}

func memory(t testing.TB, s *Store) register.Memory {
	t.Helper()
	m, err := s.Memory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestADirectoryThatIsRemovedIsNoticed(t *testing.T) {
	for what, replace := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"moved":   func(dir string) error { return os.Rename(dir, dir+".old") },
		"restored": func(dir string) error {
			if out, err := exec.Command("cp", "-a", dir, dir+".copy").CombinedOutput(); err != nil {
				return errors.New(string(out))
			}
			return errors.Join(os.RemoveAll(dir), os.Rename(dir+".copy", dir))
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "locks")
			a, b := open(t, dir), open(t, dir)
			before := memory(t, a)
			if before.For != register.Forever {
				t.Errorf("a new directory remembers for %v", before.For)
			}
			put(t, a, "k", "before")
			release, err := a.Keep(t.Context(), "kept")
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			stop, heard := listen(t, b, "t")
			defer stop()
			if err := replace(dir); err != nil {
				t.Fatal(err)
			}
			other := open(t, dir)
			put(t, other, "other", "x")
			forgets(t, a, before)
			if got := <-heard; got != "" { // b does nothing
				t.Errorf("one who listens hears %q, want nil", got)
			}
			forgets(t, b, before)
			if value(t, a, "other") != "x" || value(t, b, "other") != "x" {
				t.Error("they do not see what stands in the new directory")
			}
			put(t, a, "k", "x", register.Note{Topic: "t", Text: []byte("here")})
			soon(t, "one who listened before hears again", func() bool {
				put(t, a, "k", "x", register.Note{Topic: "t", Text: []byte("here")})
				for len(heard) > 0 {
					if <-heard == "here" {
						return true
					}
				}
				return false
			})
		})
	}
}

// Whoever came after that would lock another directory, and be let in beside a holder.
func TestAPartThatIsMovedAwayIsNoticed(t *testing.T) {
	for _, part := range []string{keptDir, registersDir, registersDir + "/" + shardName(shardOf("k"))} {
		t.Run(part, func(t *testing.T) {
			noticed(t, func(dir string) error {
				if err := os.Rename(filepath.Join(dir, part), filepath.Join(dir, "aside")); err != nil {
					return err
				}
				return exec.Command("cp", "-a", filepath.Join(dir, "aside"), filepath.Join(dir, part)).Run()
			})
		})
	}
}

func TestAKeptFileThatIsRemovedIsNoticed(t *testing.T) {
	noticed(t, func(dir string) error { return os.Remove(filepath.Join(dir, keptDir, "kept")) })
}

// noticed has somebody harm a directory in use, and makes sure that all who use it find out.
func noticed(t *testing.T, harm func(dir string) error) {
	t.Helper()
	dir := t.TempDir()
	a, b := open(t, dir), open(t, dir)
	before := memory(t, a)
	put(t, a, "k", "x")
	release, err := a.Keep(t.Context(), "kept")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	stop, heard := listen(t, a, "t")
	defer stop()
	if err := harm(dir); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-heard:
		if got != "" {
			t.Errorf("it hears %q, want nil", got)
		}
	case <-time.After(time.Minute):
		t.Fatal("nobody notices")
	}
	forgets(t, a, before)
	forgets(t, b, before)
	if m := memory(t, open(t, dir)); m.For > time.Minute {
		t.Errorf("one who comes later thinks that it remembers for %v", m.For)
	}
}

// Whoever waits for a holder to die must not take a directory that is gone for its death.
func TestAKeyIsNotFreeBecauseItsDirectoryIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	a, b := open(t, dir), open(t, dir)
	release, err := a.Keep(t.Context(), "kept")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := b.Unkept(t.Context(), "kept"); !errors.Is(err, register.ErrForgot) {
		t.Errorf("Unkept: %v", err)
	}
}

func TestADirectoryOfRegistersThatIsMissingIsSaid(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, "k", "x")
	if err := os.RemoveAll(filepath.Dir(path(dir, "k"))); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{s, open(t, dir)} {
		if _, err := s.Read(t.Context(), "k"); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "missing") {
			t.Errorf("Read: %v", err)
		}
		sw := register.Swap{Key: "k", Next: register.NewVersion()}
		if _, err := s.Swap(t.Context(), sw); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "missing") {
			t.Errorf("Swap: %v", err)
		}
	}
}

// Something was forgotten when the clock was an hour ahead, and that was put right. Who has seen the directory for long enough need not
// wait for that hour.
func TestAClockThatWasPutRightKeepsNobody(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	memory(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	l := newLayout(bootID(), false)
	l.forgot = time.Now().Add(time.Hour)
	if err := os.WriteFile(filepath.Join(dir, layoutFile), []byte(l.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if m := memory(t, open(t, dir)); m.For > -59*time.Minute {
		t.Errorf("it has remembered for %v, and not less than nothing", m.For)
	}
}

func TestTheMachineWasStartedAnew(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	before := memory(t, s)
	put(t, s, "whole", "x")
	put(t, s, "half", strings.Repeat("x", 5000))
	if err := os.Truncate(path(dir, "half"), 3000); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(t.Context(), "half"); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("Read of a file that somebody has cut: %v", err)
	}
	// What a reboot leaves: the layout from before, a file that was locked, a pipe.
	kept := filepath.Join(dir, keptDir)
	if err := errors.Join(s.Close(), os.WriteFile(filepath.Join(kept, nameOf("kept")), nil, 0o600), unix.Mkfifo(filepath.Join(kept, pipeOf(nameOf("kept"))), 0o600)); err != nil {
		t.Fatal(err)
	}
	anotherBoot(t, dir)
	after := open(t, dir)
	if m := memory(t, after); m.ID == before.ID || m.For != register.Forever {
		t.Errorf("the memory is %v, and was %v", m, before)
	}
	if got := value(t, after, "whole"); got != "x" {
		t.Errorf("a register is %q", got)
	}
	if it, err := after.Read(t.Context(), "half"); err != nil || !it.Version.IsZero() {
		t.Errorf("a register that was half written: %v, %v", it, err)
	}
	if err := after.Unkept(t.Context(), "kept"); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(kept); err != nil || len(left) > 0 {
		t.Errorf("there is left: %v, %v", left, err)
	}
}

// A container may have a boot id of its own, or none that can be read. It shares the directory with those outside.
func TestAnotherBootIDClearsNothingThatIsInUse(t *testing.T) {
	for name, boot := range map[string]string{"another": "another", "none": ""} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			before := put(t, s, "k", "x")
			release, err := s.Keep(t.Context(), "kept")
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			layout := filepath.Join(dir, layoutFile)
			text, err := os.ReadFile(layout)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(layout, []byte(strings.Replace(string(text), bootID(), boot, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				other := open(t, dir)
				if _, err := other.Keep(t.Context(), "kept"); !errors.Is(err, register.ErrConflict) {
					t.Errorf("the key is kept twice: %v", err)
				}
				it, err := other.Read(t.Context(), "k")
				if err != nil || it.Version != before.Version {
					t.Errorf("%+v, %v", it, err)
				}
				before = put(t, other, "k", "y")
			}
			if it, err := s.Read(t.Context(), "k"); err != nil || it.Version != before.Version {
				t.Errorf("the first one reads %+v, %v", it, err)
			}
		})
	}
}

func TestTwoKeysOfOneNameAreNotConfused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, "mine", "x")
	yours := put(t, s, "yours", "y")
	if err := os.MkdirAll(filepath.Dir(path(dir, "mine")), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path(dir, "yours"), path(dir, "mine")); err != nil {
		t.Fatal(err)
	}
	if it, err := s.Read(t.Context(), "mine"); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "collide") {
		t.Errorf("Read of a file that is another key's: %v, %v", it, err)
	}
	for _, old := range []register.Version{{}, yours.Version} {
		sw := register.Swap{Key: "mine", Old: old, Next: register.NewVersion()}
		if _, err := s.Swap(t.Context(), sw); !errors.Is(err, driver.ErrDenied) {
			t.Errorf("Swap of a file that is another key's: %v", err)
		}
	}
}

func TestNamesDifferInMoreThanCase(t *testing.T) {
	long := strings.Repeat("x", 1000)
	names := map[string]string{}
	for _, key := range []string{
		"a", "A", "a/b", "a,b", "a%2cb", "a%2Cb", ".", "..", ".a", "~", "~a", "é", "e\u0301", "É", " ", "a b", "line/Orders", "line/orders",
		long, long + "x", strings.ToUpper(long), long[:999] + "y", strings.Repeat("/", 1100), strings.Repeat("\u00e9", 550),
	} {
		name := nameOf(key)
		if other, ok := names[strings.ToLower(name)]; ok {
			t.Errorf("%.40q and %.40q are both called %s", key, other, name)
		}
		names[strings.ToLower(name)] = key
		if len(name) > longName || name[0] == '.' || name[0] == '~' || strings.ContainsAny(name, "/ ") || name != strings.ToLower(name) {
			t.Errorf("%.40q is called %s", key, name)
		}
		if len(key) < 10 && beginOf(key) != name {
			t.Errorf("%q is not found by itself", key)
		}
	}
}

func TestAFileThatIsReadWhileItIsSwappedIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	first := put(t, s, "k", "first")
	l := &s.place.Load().shards[shardOf("k")]
	f, err := os.Open(path(dir, "k"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	whole := appendContent(nil, "k", first.Version, first.Value)
	still := func() error { return stillThere(l.dir, "k", int(f.Fd()), whole) }
	if err := still(); err != nil {
		t.Errorf("nobody has swapped: %v", err)
	}
	put(t, s, "k", "second") // the file is the spare one now
	if err := still(); err != errSwapped {
		t.Errorf("it has another name: %v", err)
	}
	put(t, s, "k", "third") // and now it is in the register again
	if err := still(); err != errSwapped {
		t.Errorf("it holds something else: %v", err)
	}
}

func TestABackupByHardLinksStaysAsItWas(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, "k", "first")
	put(t, s, "k", "second")
	backup := filepath.Join(t.TempDir(), "backup")
	if out, err := exec.Command("cp", "-al", filepath.Join(dir, registersDir), backup).CombinedOutput(); err != nil {
		t.Skipf("no hard links: %v: %s", err, out)
	}
	put(t, s, "k", "third")
	put(t, s, "k", "fourth")
	b, err := os.ReadFile(filepath.Join(backup, shardName(shardOf("k")), "k"))
	if err != nil {
		t.Fatal(err)
	}
	if it, err := parse(b); err != nil || string(it.Value) != "second" {
		t.Errorf("the backup holds %q, %v", it.Value, err)
	}
}

func TestAProcessThatIsStoppedInASwapHoldsUpNobodyForLongerThanTheirContexts(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	before := put(t, s, "k", "before")
	unlock := lockAll(t, dir)
	defer unlock()
	goroutines := runtime.NumGoroutine()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	sw := register.Swap{Key: "k", Old: before.Version, Next: register.NewVersion(), Value: []byte("after")}
	for range 20 {
		if _, err := s.Swap(ctx, sw); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Swap while another process has the lock: %v", err)
		}
	}
	if n := runtime.NumGoroutine() - goroutines; n > 8 {
		t.Errorf("%d goroutines wait for two locks", n)
	}
	if got := value(t, s, "k"); got != "before" {
		t.Errorf("the register is %q", got)
	}
	closed := make(chan struct{})
	go func() { s.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Fatal("Close hangs")
	}
	unlock()
	soon(t, "those who waited in the kernel are gone", func() bool { return runtime.NumGoroutine() <= goroutines })
	if got := value(t, open(t, dir), "k"); got != "before" {
		t.Errorf("the register is %q after a swap that was given up", got)
	}
}

func TestAnOperatorsLockKeepsOthersOut(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil { // only the operator can lock it
		t.Fatal(err)
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := flock(d, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), dir); err == nil || errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "operator") {
		t.Errorf("Open while an operator has the lock: %v", err)
	}
	if err := flock(d, unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	if err := flock(d, unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		t.Errorf("an operator locks a directory that is in use: %v", err)
	}
	s.Close()
	if err := flock(d, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("an operator locks a directory that nobody uses: %v", err)
	}
}

func TestWhatIsKeptOutlivesTheStore(t *testing.T) {
	dir := t.TempDir()
	a, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, dir)
	release, err := a.Keep(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	if _, err := b.Keep(t.Context(), "k"); !errors.Is(err, register.ErrConflict) {
		t.Errorf("Keep after the store was closed that keeps it: %v", err)
	}
	release()
	if names, err := os.ReadDir(filepath.Join(dir, keptDir)); err != nil || len(names) != 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
	if err := b.Unkept(t.Context(), "k"); err != nil {
		t.Error(err)
	}
}

func TestWhatTheDeadLeaveBehindIsRemoved(t *testing.T) {
	dir := t.TempDir()
	cmd := childProcess("count", dir)
	n := &numbers{times: make(map[int]int)}
	wait := n.run(t, cmd)
	s := open(t, dir)
	soon(t, "the child counts", func() bool { return value(t, s, "counter") != "" })
	cmd.Process.Kill()
	wait()
	// As if it had also listened and kept a key.
	p := s.place.Load()
	ear, err := p.newPipe("t")
	if err != nil {
		t.Fatal(err)
	}
	ear.f.Close()
	p.leave()
	if err := os.WriteFile(filepath.Join(dir, notesDir, "t", ".4711-3c.of-a-pipe-that-has-gone"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := p.lockKept(t.Context(), "kept")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	open(t, dir)
	for _, d := range []string{notesDir, keptDir} {
		soon(t, d+" is swept", func() bool {
			names, err := os.ReadDir(filepath.Join(dir, d))
			return err == nil && len(names) == 0
		})
	}
}

func TestNobodyUsesADirectoryOnceAKeyIsNoLongerKept(t *testing.T) {
	s := open(t, t.TempDir())
	p := s.place.Load()
	release, err := s.Keep(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	release()
	s.Close()
	soon(t, "the directory is closed", func() bool { return p.users.Load() == 0 })
}

func TestOneWhoAsksWhetherAKeyIsKeptNoticesThatTheDirectoryHasGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	s := open(t, dir)
	if err := s.Unkept(t.Context(), "key"); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := s.Unkept(t.Context(), "key"); !errors.Is(err, register.ErrForgot) {
		t.Errorf("nobody keeps it, as a directory says that has gone: %v", err)
	}
}

func TestADeadListenerCostsOneNote(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	p := s.place.Load()
	ear, err := p.newPipe("t")
	if err != nil {
		t.Fatal(err)
	}
	ear.f.Close() // as the kernel does
	p.leave()
	// A process that is being started beside us holds all our files for a moment, so one note may still find a reader.
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		put(t, s, "k", "x", register.Note{Topic: "t", Text: []byte("x")})
		names, err := os.ReadDir(filepath.Join(dir, notesDir))
		if err == nil && len(names) == 0 {
			return
		}
		if err != nil || time.Now().After(limit) {
			t.Fatalf("left behind: %v, %v", names, err)
		}
	}
}

func TestAListenerWhoIsAsleepLearnsThatItHasLostNotes(t *testing.T) {
	for what, size := range map[string]int{"notes that fill it": 58, "long notes": 7000} {
		t.Run(what, func(t *testing.T) {
			s := open(t, t.TempDir())
			asleep := make(chan struct{})
			var heard, lost int
			var last string
			done := make(chan struct{}, 1)
			stop, err := s.Listen(t.Context(), "t", func(note []byte) {
				<-asleep
				switch {
				case note == nil:
					lost++
				default:
					heard++
					last = string(note[:4])
				}
				if last == "last" || lost > 0 && len(done) == 0 {
					select {
					case done <- struct{}{}:
					default:
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			text := []byte(strings.Repeat("x", size))
			notes := make([]register.Note, 5000)
			for i := range notes {
				notes[i] = register.Note{Topic: "t", Text: text}
			}
			put(t, s, "k", "x", notes...)
			close(asleep)
			<-done
			stop()
			if lost == 0 {
				t.Errorf("it heard %d of %d notes, and does not know it", heard, len(notes))
			}
		})
	}
}

func TestAPipeThatSomebodyRemovesIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	stop, heard := listen(t, s, "t")
	defer stop()
	if err := os.RemoveAll(filepath.Join(dir, notesDir, "t")); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != "" {
		t.Errorf("it hears %q, want nil", got)
	}
	soon(t, "it hears again", func() bool {
		put(t, s, "k", "x", register.Note{Topic: "t", Text: []byte("x")})
		return len(heard) > 0
	})
}

func TestALongKeyIsSwappedAgainAndAgain(t *testing.T) {
	s := open(t, t.TempDir())
	for _, size := range []int{400, 500, longestKey} {
		key := strings.Repeat("k", size)
		for _, v := range []string{"1", "2", "3"} {
			put(t, s, key, v)
		}
		if got := value(t, s, key); got != "3" {
			t.Errorf("a key of %d bytes holds %q", size, got)
		}
	}
}
