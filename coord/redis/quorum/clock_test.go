package quorum

import (
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/verify/servers"
)

// Machines that do not know the date yet found a group, and are told it later. Then one of them is told a date that is far ahead.
func TestAGroupGoesOnWhateverTheClocksSay(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3), servers.Clocks())
	set := func(i int, by time.Duration) {
		if err := cluster.Member(i).SetClock(by); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		set(i, time.Until(time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC)))
	}
	q := openOn(t, cluster)
	redistest.Put(t, q, "a", "in 1970")
	for i := range 3 {
		set(i, 0)
	}
	redistest.Put(t, q, "a", "today")
	set(0, 280*365*24*time.Hour)
	redistest.Put(t, q, "a", "in 2306")
	for down := 1; down < 3; down++ { // what the first says counts
		cluster.Member(down).Freeze()
		if it := redistest.Read(t, openOn(t, cluster), "a"); string(it.Value) != "in 2306" {
			t.Errorf("there stands %q", it.Value)
		}
		cluster.Member(down).Thaw()
	}
}
