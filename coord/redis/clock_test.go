package redis

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// A wall clock may be set while a client waits. time.Time and time.Since go by the monotonic clock; a number of seconds since
// 1970 cannot, and Round and Truncate drop that clock.
func TestNothingIsMeasuredByTheClientsWallClock(t *testing.T) {
	wall := regexp.MustCompile(`\.(Unix(Nano|Micro|Milli)?|Round|Truncate)\(`)
	files := 0
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		files++
		text, err := os.ReadFile(name)
		for i, line := range strings.Split(string(text), "\n") {
			if found := wall.FindString(line); found != "" {
				t.Errorf("%s:%d: %s", name, i+1, strings.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil || files < 30 {
		t.Errorf("%d files, %v", files, err)
	}
}

func TestAReservationBeforeAClockWasSetBackKeepsNobody(t *testing.T) {
	address := servers.Redis(t).Addrs()[0]
	s := open1(t, address)
	it := redistest.Put(t, s, "reserved", "by somebody")
	now, _ := strconv.Atoi(strings.Fields(redistest.CLI(t, address, "TIME"))[0])
	redistest.CLI(t, address, "SETRANGE", "turnwise:reserved", "24", fmt.Sprintf("somebody%016d", (now+3600)*1e6))
	if _, err := s.Swap(t.Context(), register.Swap{Key: it.Key, Old: it.Version, Next: register.NewVersion(), By: register.NewVersion()}); err != nil {
		t.Error(err)
	}
}

// A server was started with a clock that was an hour ahead, and that was put right. By its clock it will be started in an hour.
func TestAClockThatWasPutRightKeepsNobody(t *testing.T) {
	m := servers.Redis(t, servers.Clocks()).Member(0)
	if err := m.SetClock(-time.Hour); err != nil {
		t.Fatal(err)
	}
	storecheck.Eventually(t, "the server has noticed", func() bool {
		return strings.Contains(redistest.CLI(t, m.Addr(), "INFO", "server"), "uptime_in_seconds:-")
	})
	c, err := Connect(redistest.Within(t, 20*time.Second), m.Addr(), WithTTL(2*time.Second), WithLongestTTL(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := mutex.New(c, "a").Lock(redistest.Within(t, 30*time.Second)); err != nil {
		t.Errorf("lock: %v", err)
	}
}

// A machine that has not been told the date yet says 1970.
func TestARegisterIsReadAsItWasWrittenWhateverTheClockSays(t *testing.T) {
	m := servers.Redis(t, servers.Clocks()).Member(0)
	s := open1(t, m.Addr())
	for _, set := range []time.Duration{time.Until(time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC)), 0, 280 * 365 * 24 * time.Hour, 0} {
		if err := m.SetClock(set); err != nil {
			t.Fatal(err)
		}
		it := redistest.Put(t, s, "a", "what was written")
		if got := redistest.Read(t, s, "a"); got.Version != it.Version || string(got.Value) != "what was written" {
			t.Errorf("at %s by the server's clock there stands %q, at %v", redistest.CLI(t, m.Addr(), "TIME"), got.Value, got.Version)
		}
	}
}
