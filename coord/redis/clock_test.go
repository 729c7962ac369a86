package redis

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/coord/register"
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
