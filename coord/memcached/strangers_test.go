package memcached

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

// neighbours returns two clients on one server.
func neighbours(t *testing.T, m *servers.Member) (a, b *coord.Client) {
	client := func() *coord.Client {
		return storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) {
			return Connect(ctx, m.Addr(), WithLogger(logger(t)), WithTTL(2*time.Second))
		})
	}
	return client(), client()
}

// says sends what a stranger asks for, and fails unless the answer begins as it should.
func says(t *testing.T, m *servers.Member, asked, want string) {
	t.Helper()
	if got := telnet(t, m.Addr(), asked); !strings.HasPrefix(got, want) {
		t.Errorf("%q is answered with %q, want %q", asked, got, want)
	}
}

// There are no rights: who reaches the port reads all that is stored.
func TestAStrangerWhoReachesThePortReads(t *testing.T) {
	m := server(t)
	a, b := neighbours(t, m)
	h := storecheck.Locked(t, a, "orders")
	says(t, m, "mg turnwise:line/orders v", "VA ")
	says(t, m, "lru_crawler metadump all", "key=turnwise")
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	storecheck.ShutsOut(t, a, b, "orders")
}

func TestAStrangerWhoReachesThePortWrites(t *testing.T) {
	t.Run("a line that nobody uses", func(t *testing.T) {
		m := server(t)
		a, b := neighbours(t, m)
		says(t, m, "ms turnwise:line/spoilt 1 \r\nx", "HD")
		storecheck.SpoilsOneLine(t, a, b, "spoilt")
	})
	t.Run("a line that is in use", func(t *testing.T) {
		m := server(t)
		a, b := neighbours(t, m)
		storecheck.LineTaken(t, a, b, func() { says(t, m, "md turnwise:line/orders", "HD") })
	})
	t.Run("all that there is", func(t *testing.T) {
		m := server(t)
		a, b := neighbours(t, m)
		storecheck.Emptied(t, a, b, func() { says(t, m, "flush_all", "OK") })
	})
	t.Run("what says that nothing was forgotten", func(t *testing.T) {
		m := server(t)
		a, b := neighbours(t, m)
		storecheck.Emptied(t, a, b, func() { says(t, m, "md turnwise.memory", "HD") })
	})
	t.Run("something else in its place", func(t *testing.T) {
		m := server(t)
		a, _ := neighbours(t, m)
		h := storecheck.Locked(t, a, "orders")
		says(t, m, "ms turnwise.memory 1 \r\nx", "HD")
		storecheck.EndsSoon(t, h)
		storecheck.SpoilsAll(t, a)
	})
}

// What an operator may set while the server runs, anybody may who reaches the port. It throws no line away in silence.
func TestAStrangerWhoReachesThePortSetsThingsUp(t *testing.T) {
	m := server(t, "-F")
	a, b := neighbours(t, m)
	h := storecheck.Locked(t, a, "orders")
	says(t, m, "flush_all", "CLIENT_ERROR")
	says(t, m, "shutdown", "ERROR")
	says(t, m, "slabs reassign 1 2", "CLIENT_ERROR")
	for _, may := range []string{"slabs automove 2", "cache_memlimit 8", "lru mode flat", "lru temp_ttl 1", "lru_crawler crawl all", "stats reset", "verbosity 1"} {
		says(t, m, may, map[bool]string{true: "RESET", false: "OK"}[may == "stats reset"])
	}
	time.Sleep(2 * time.Second)
	storecheck.IsBusy(t, b, "orders")
	if err := h.Err(); err != nil {
		t.Errorf("the hold has ended: %v", err)
	}
}

// onSocket starts a server at a socket in a directory that anybody may enter.
func onSocket(t *testing.T, flags ...string) (path string) {
	t.Helper()
	program, err := servers.Find("memcached/memcached")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "memcached") // t.TempDir is in a folder that only we may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "socket")
	m := exec.Command(program, append([]string{"-s", path, "-M", "-o", "no_slab_reassign"}, flags...)...)
	if os.Geteuid() == 0 {
		m.Args = append(m.Args, "-u", "root")
	}
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Process.Kill(); m.Wait() })
	storecheck.Eventually(t, "it listens", func() bool {
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return path
}

// With -Y there are users, each of whom may do everything. Nobody else may do anything, and neither may we.
func TestAUserOfAServerThatAsksForAPassword(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte("mallory:sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := onSocket(t, "-Y", users)
	_, err := Open(within(t, 20*time.Second), socket, WithLogger(logger(t)))
	storecheck.Refused(t, err, driver.ErrDenied, "asks for a password")
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answers := bufio.NewReader(c)
	for _, said := range [][2]string{
		{"mg turnwise.memory v", "CLIENT_ERROR unauthenticated"}, {"set login 0 0 14\r\nmallory sesame", "STORED"},
		{"ms turnwise.memory 1 \r\nx", "HD"}, {"flush_all", "OK"},
	} {
		fmt.Fprintf(c, "%s\r\n", said[0])
		if answer, err := answers.ReadString('\n'); err != nil || strings.TrimSpace(answer) != said[1] {
			t.Errorf("%q: %q, %v", said[0], answer, err)
		}
	}
}

// Where the server has a socket instead of a port, rights are those of the file: as it comes, its user's alone.
func TestAStrangerWhoMayNotOpenTheSocket(t *testing.T) {
	socket := onSocket(t)
	opened(t, socket)
	var err error
	storecheck.AsUser(t, 12346, func() { _, err = net.Dial("unix", socket) })
	if !errors.Is(err, os.ErrPermission) {
		t.Errorf("somebody else's connection: %v", err)
	}
}
