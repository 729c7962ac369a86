//go:build linux || darwin

package cli

import (
	"os"
	"testing"
)

// A home of somebody else's, in which nothing stands yet, is left alone until the connection is made.
func TestAHomeOfSomebodyElsesIsNotReadWhileConnecting(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, c := range []struct {
		uid    int
		scheme string
		unset  bool
	}{{12346, "postgres", true}, {12346, "redis", false}, {0, "postgres", false}} {
		if err := os.Chown(home, c.uid, 0); err != nil {
			t.Fatal(err)
		}
		back, err := leaveHome(c.scheme)
		if err != nil {
			t.Fatal(err)
		}
		if got := os.Getenv("HOME"); (got == "") != c.unset {
			t.Errorf("of user %d, to connect to %s: HOME is %q", c.uid, c.scheme, got)
		}
		if back(); os.Getenv("HOME") != home {
			t.Errorf("afterwards HOME is %q", os.Getenv("HOME"))
		}
	}
}
