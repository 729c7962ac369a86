package file

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/coord/register"
)

// On a snapshot of a disk all files have the same numbers. It is mounted where the disk was, while a lock is held.
func TestASnapshotThatIsMountedInThePlaceLetsNobodyIn(t *testing.T) {
	tmp := folder(t)
	sh := func(script string) error {
		out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-ec", "cd "+tmp+"; "+script).CombinedOutput()
		if err != nil {
			t.Logf("%s: %s", script, out)
		}
		return err
	}
	if sh("truncate -s 24M disk; mkfs.ext4 -q -F disk; mkdir at; mount -o loop disk at") != nil {
		t.Skip("no disk can be mounted")
	}
	t.Cleanup(func() { _ = sh("umount -l at || true; umount -l at || true") })
	dir := filepath.Join(tmp, "at", "locks")
	_ = locked(t, dir, time.Minute).Release()
	if err := sh("sync -f at; cp disk snapshot"); err != nil {
		t.Fatal(err)
	}
	held := locked(t, dir, time.Minute)
	if err := sh("mount -o loop snapshot at"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	next := locked(t, dir, time.Minute)
	if held.Err() == nil {
		t.Errorf("two hold %v after the snapshot was mounted, with tokens %d and %d", time.Since(began), held.Token(), next.Token())
	}
}

// A disk may stand still for long, and a write to it cannot be called off. Whoever waits for one goes on all the same.
func TestWhoWaitsForADiskThatStandsStillGoesOn(t *testing.T) {
	tmp := folder(t)
	if out, err := exec.Command("sh", "-ec", "cd "+tmp+"; truncate -s 24M disk; mkfs.ext4 -q -F disk; mkdir at; mount -o loop disk at").CombinedOutput(); err != nil {
		t.Skipf("a disk of one's own takes root, and the right to mount: %s", out)
	}
	at := filepath.Join(tmp, "at")
	defer func() { _ = exec.Command("umount", "-l", at).Run() }()
	s := open(t, filepath.Join(at, "locks"), WithSync())
	it := put(t, s, "k", "before")
	disk, err := os.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	const freeze, thaw = 0xc0045877, 0xc0045878 // FIFREEZE, FITHAW
	if err := unix.IoctlSetInt(int(disk.Fd()), freeze, 0); err != nil {
		t.Skip("the disk cannot be made to stand still: ", err)
	}
	defer func() { _ = unix.IoctlSetInt(int(disk.Fd()), thaw, 0) }()
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := s.Swap(ctx, register.Swap{Key: "k", Old: it.Version, Next: register.NewVersion(), Value: []byte("after")})
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a swap: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("a swap waits for the disk, and for nothing else")
	}
}

// The layout says on which device it was written. What an older version has written does not.
func TestADirectoryOnAnotherDeviceIsACopy(t *testing.T) {
	for name, c := range map[string]struct {
		change func(layout string) string
		copied bool
	}{
		"the same device": {func(l string) string { return l }, false},
		"another device": {func(l string) string {
			return regexp.MustCompile(`(?m)^device \d+$`).ReplaceAllString(l, "device 4711")
		}, true},
		"another device, and another start": {func(l string) string {
			l = regexp.MustCompile(`(?m)^device \d+$`).ReplaceAllString(l, "device 4711")
			return regexp.MustCompile(`(?m)^boot .*$`).ReplaceAllString(l, "boot before")
		}, true},
		"another start": {func(l string) string { return regexp.MustCompile(`(?m)^boot .*$`).ReplaceAllString(l, "boot before") }, false},
		"an older version": {func(l string) string {
			return regexp.MustCompile(`(?m)^device \d+\n`).ReplaceAllString(l, "")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(folder(t), "locks")
			var said bytes.Buffer
			open := func() *Store {
				t.Helper()
				s, err := Open(t.Context(), dir, WithLogger(slog.New(slog.NewTextHandler(&said, nil))))
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			open().Close()
			path := filepath.Join(dir, layoutFile)
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(text), "\ndevice ") {
				t.Fatalf("%s, %v", text, err)
			}
			if err := os.WriteFile(path, []byte(c.change(string(text))), 0o600); err != nil { // it is the same file
				t.Fatal(err)
			}
			s := open()
			defer s.Close()
			m, err := s.Memory(t.Context())
			if waits := m.For >= 0 && m.For < time.Minute; err != nil || waits != c.copied {
				t.Errorf("it has remembered for %v, %v", m.For, err)
			}
			if name == "another device" && !strings.Contains(said.String(), "is a copy of another") {
				t.Errorf("an operator is told:\n%s", &said)
			}
			again := open() // which goes on with what the first has written
			defer again.Close()
			if after, err := again.Memory(t.Context()); err != nil || after.ID != m.ID {
				t.Errorf("%v, and then %v, %v", m, after, err)
			}
		})
	}
}
