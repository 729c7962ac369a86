package redis

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/verify/servers"
)

func number(t *testing.T, info, name string) int {
	t.Helper()
	_, rest, _ := strings.Cut(info, name+":")
	text, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// The policy is set after the store was opened, and a limit as well. Some lines are thrown away, and nobody is told.
func TestLinesThatAreThrownAwayAreAForgetting(t *testing.T) {
	address := servers.Redis(t).Addrs()[0]
	s := open1(t, address)
	const lines = 100
	for i := range lines {
		redistest.Put(t, s, fmt.Sprint("line/", i), strings.Repeat("x", 20_000))
	}
	before := redistest.Remembered(t, s)
	redistest.CLI(t, address, "CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	redistest.CLI(t, address, "CONFIG", "SET", "maxmemory", strconv.Itoa(number(t, redistest.CLI(t, address, "INFO", "memory"), "used_memory")-500_000))
	redistest.CLI(t, address, "CONFIG", "SET", "maxmemory", "0")
	if _, err := s.Memory(t.Context()); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("the policy is taken: %v", err)
	}
	for i := range lines {
		it, err := s.Read(t.Context(), fmt.Sprint("line/", i))
		if err == nil && it.Version.IsZero() {
			t.Fatalf("line %d counts as empty", i)
		}
		if errors.Is(err, driver.ErrDenied) { // until somebody puts the policy right
			redistest.CLI(t, address, "CONFIG", "SET", "maxmemory-policy", "noeviction")
			if _, err := s.Read(t.Context(), "line/0"); !errors.Is(err, register.ErrForgot) {
				t.Errorf("then it reads: %v", err)
			}
			if after := redistest.Remembered(t, s); after.ID == before.ID {
				t.Error("the memory is as before")
			}
			return
		}
	}
	t.Error("all lines are there")
}

// What is missing is noticed by whichever call meets it.
func TestARegisterThatIsMissingIsAForgetting(t *testing.T) {
	for what, call := range map[string]func(s *Store) error{
		"read": func(s *Store) error { _, err := s.Read(t.Context(), "a"); return err },
		"list": func(s *Store) error { return s.List(t.Context(), "", func(register.Item) bool { return true }) },
		"create": func(s *Store) error {
			_, err := s.Swap(t.Context(), register.Swap{Key: "a", Next: register.NewVersion()})
			return err
		},
		"swap": func(s *Store) error {
			_, err := s.Swap(t.Context(), register.Swap{Key: "a", Old: register.NewVersion(), Next: register.NewVersion()})
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := shared(t)
			address := s.server.Address
			redistest.Put(t, s, "a", "one")
			redistest.CLI(t, address, "DEL", s.server.Root+"a")
			if err := call(s); !errors.Is(err, register.ErrForgot) {
				t.Errorf("%v", err)
			}
			redistest.Remembered(t, s)
			if it := redistest.Read(t, s, "a"); !it.Version.IsZero() {
				t.Errorf("there stands %v", it)
			}
			redistest.Put(t, s, "b", "two")
			redistest.CLI(t, address, "DEL", s.server.Index())
			if _, err := s.Read(t.Context(), "c"); !errors.Is(err, register.ErrForgot) {
				t.Errorf("without the index: %v", err)
			}
			redistest.Remembered(t, s)
			redistest.Put(t, s, "c", "three")
		})
	}
}

// Whoever lists goes by the index. Without it, all sessions would seem to have gone, and their nodes would be removed.
func TestAListingWithoutTheIndexIsAForgetting(t *testing.T) {
	s := shared(t)
	redistest.Put(t, s, "session/a", "one")
	redistest.CLI(t, s.server.Address, "DEL", s.server.Index())
	for _, prefix := range []string{"session/", ""} {
		err := s.List(t.Context(), prefix, func(register.Item) bool { return true })
		if !errors.Is(err, register.ErrForgot) {
			t.Errorf("list %q: %v", prefix, err)
		}
	}
	redistest.Remembered(t, s)
	if err := s.List(t.Context(), "", func(register.Item) bool { return true }); err != nil {
		t.Error(err)
	}
}

// While nothing was written to the disk, it kept what was there before. The server is then started with that.
func TestARestartWithADiskThatWasNotWrittenToForgets(t *testing.T) {
	cluster := servers.Redis(t, servers.AppendOnly("always"))
	m := cluster.Member(0)
	s := open1(t, m.Addr())
	written := redistest.Remembered(t, s)
	redistest.Put(t, s, "a", "one")
	redistest.CLI(t, m.Addr(), "CONFIG", "SET", "appendonly", "no")
	forgets(t, s) // from now on another restart may forget
	before := redistest.Remembered(t, s)
	redistest.Put(t, s, "b", "two")
	m.Restart(t)
	forgets(t, s)
	after := redistest.Remembered(t, s)
	if after.ID == written.ID || after.ID == before.ID || after.For > time.Second {
		t.Errorf("%v, then %v", before, after)
	}
	// It is not gone on with by anybody else.
	if other := redistest.Remembered(t, open1(t, m.Addr())); other.ID != after.ID {
		t.Errorf("%v, and to another %v", after, other)
	}
	redistest.Put(t, s, "b", "three")
	m.Restart(t)
	remembers(t, s, "b", "three")
}
