package postgres

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

// The disk of the table is full: swaps fail, nothing is lost, and they go on when there is room.
func TestAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	m := durable(t)
	dir := filepath.Join(m.Dir(), "small")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() {
		m.Kill()
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	own, err := os.Stat(filepath.Join(m.Dir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, int(own.Sys().(*syscall.Stat_t).Uid), -1); err != nil {
		t.Fatal(err)
	}
	s := opened(t, m.URL())
	query(t, m.URL(), fmt.Sprintf(`CREATE TABLESPACE small LOCATION '%s'`, dir), `ALTER TABLE turnwise_register SET TABLESPACE small`)
	small := put(t, s, register.Item{Key: "small"}, "1")
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 600<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	large := register.Swap{Key: "large", Next: register.NewVersion(), Value: make([]byte, 900<<10)}
	_, err = s.Swap(within(t, 10*time.Second), large)
	if err == nil || !strings.Contains(err.Error(), "disk is full") {
		t.Fatalf("it returns %v", err)
	}
	if got := read(t, s, "large"); !got.Version.IsZero() {
		t.Errorf("there stands %+v", got.Version)
	}
	put(t, s, small, "2") // there is room beside the old one
	os.Remove(filepath.Join(dir, "ballast"))
	large.Value = large.Value[:400<<10]
	query(t, m.URL(), "VACUUM turnwise_register")
	eventually(t, "it goes on", func() bool { _, err := s.Swap(within(t, 10*time.Second), large); return err == nil })
}
