package driverkit

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The name localhost means whatever a DNS server says where the file of hosts has nothing of it. A process that sees another
// file of hosts runs this test once more.
func TestLocalhostIsHereIfTheFileOfHostsSaysSo(t *testing.T) {
	if hosts := os.Getenv("TURNWISE_HOSTS"); hosts != "" {
		for _, err := range []error{
			syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""), syscall.Mount(hosts, "/etc/hosts", "", syscall.MS_BIND, ""),
		} {
			if err != nil {
				t.Skip("a file cannot be put in another's place:", err)
			}
		}
		err := CheckPassword("localhost:1", nil, false, slog.New(slog.DiscardHandler))
		if here := filepath.Base(hosts) == "here"; (err == nil) != here || err != nil && !strings.Contains(err.Error(), "write 127.0.0.1") {
			t.Error(err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can have another file of hosts")
	}
	for name, text := range map[string]string{
		"here": "127.0.0.1 localhost\n::1 localhost\n", "nowhere": "127.0.0.1 other\n", "elsewhere": "192.0.2.1 localhost\n",
		"in two places": "127.0.0.1 localhost\n192.0.2.1 localhost\n",
	} {
		t.Run(name, func(t *testing.T) {
			hosts := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(hosts, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			again := exec.Command(os.Args[0], "-test.run=^TestLocalhostIsHereIfTheFileOfHostsSaysSo$", "-test.v")
			again.Env = append(os.Environ(), "TURNWISE_HOSTS="+hosts)
			again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
			said, err := again.CombinedOutput()
			if t.Logf("%s", said); err != nil {
				t.Error(err)
			}
		})
	}
}
