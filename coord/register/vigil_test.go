package register

import (
	"testing"
	"time"
)

// seen is what a look shows of a session with a TTL of 10 s that was renewed that long ago, by the store's clock and by its
// owner's.
func seen(version byte, byStore, byOwner time.Duration, now time.Time) Item {
	h := heartbeat{ttl: 10 * time.Second, at: now.Add(-byOwner)}
	return Item{Version: Version{version}, Value: h.encode(), Age: byStore}
}

func TestWhenASessionIsTakenForDead(t *testing.T) {
	const long = time.Hour
	for name, c := range map[string]struct {
		byStore, byOwner time.Duration
		after            time.Duration // of looking on
	}{
		"both clocks say that it has been silent for long": {long, long, 3750 * time.Millisecond},
		"it was renewed six seconds ago":                   {6 * time.Second, 6 * time.Second, 4 * time.Second},
		"it was renewed a second ago":                      {time.Second, time.Second, 9 * time.Second},
		"the store's clock was set forward":                {long, 0, 10 * time.Second},
		"the owner's clock is behind":                      {0, long, 10 * time.Second},
		"the store has no clock":                           {-1, long, 10 * time.Second},
		"the owner's clock is ahead":                       {long, -long, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			var s sighting
			for looked := time.Duration(0); looked <= 11*time.Second; looked += 250 * time.Millisecond {
				now := began.Add(looked)
				age := c.byStore
				if age >= 0 {
					age += looked
				}
				dead, again := s.see(seen(1, age, c.byOwner+looked, now), now, now)
				if dead != (looked >= c.after) {
					t.Fatalf("after %v: dead is %v, and it was to be taken for dead after %v", looked, dead, c.after)
				}
				if !dead && again <= 0 {
					t.Fatalf("after %v it says to look again in %v", looked, again)
				}
			}
		})
	}
}

// Clocks are set forward, and machines that slept wake up; a session that is renewed goes on.
func TestASessionThatIsRenewedIsNeverTakenForDead(t *testing.T) {
	began := time.Now()
	var s sighting
	for i := range 100 {
		now := began.Add(time.Duration(i) * 2500 * time.Millisecond)
		if dead, _ := s.see(seen(byte(i+1), time.Hour, time.Hour, now), now, now); dead {
			t.Fatal("it is taken for dead")
		}
	}
}
