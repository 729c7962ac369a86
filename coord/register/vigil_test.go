package register

import (
	"testing"
	"time"
)

const seenTTL = 10 * time.Second

// looking is a process that looks at a session with a TTL of ten seconds from its beginning on.
type looking struct {
	clock clock
	seen  sighting
	began time.Time
	store func(after time.Duration) time.Duration // what the store's clock says
}

// look looks at a version that the store took when its clock said so.
func (l *looking) look(after time.Duration, version byte, taken time.Duration) (dead bool, again time.Duration) {
	h := heartbeat{ttl: seenTTL, at: time.Now().Add(-time.Hour)} // wall clocks do not count
	it := Item{Version: Version{version}, Value: h.encode(), Age: -1}
	if now := l.store(after); now > 0 {
		it.Clock, it.Age = now, max(0, now-taken)
	}
	return l.seen.see(&l.clock, it, l.began.Add(after), l.began.Add(after))
}

// newLooking returns a process that has looked at the store's clock for so long already, as the renewals of its own session do.
func newLooking(store func(time.Duration) time.Duration, up time.Duration) *looking {
	l := &looking{store: store, began: time.Now()}
	l.clock = clock{base: l.began.Add(-time.Hour), keep: 2 * seenTTL}
	for before := up; before > 0; before -= seenTTL / renewals {
		at := l.began.Add(-before)
		l.clock.sampled(Item{Clock: store(-before)}, at, at)
	}
	return l
}

func TestWhenASessionIsTakenForDead(t *testing.T) {
	const hour = time.Hour
	steady := func(after time.Duration) time.Duration { return hour + after }
	setAt := func(when, by time.Duration) func(time.Duration) time.Duration {
		return func(after time.Duration) time.Duration {
			if after >= when {
				after += by
			}
			return hour + after
		}
	}
	for name, c := range map[string]struct {
		store    func(time.Duration) time.Duration
		up       time.Duration // for how long the process has looked at the store's clock
		silent   time.Duration // for how long the session has been, by the store's clock
		earliest time.Duration // when it may be taken for dead
		latest   time.Duration
	}{
		"silent for long":                  {steady, hour, 20 * time.Second, 3750 * time.Millisecond, 4 * time.Second},
		"silent for six seconds":           {steady, hour, 6 * time.Second, 4 * time.Second, 7 * time.Second},
		"renewed a moment ago":             {steady, hour, 0, seenTTL, seenTTL},
		"the process has just begun":       {steady, 0, hour, seenTTL, seenTTL},
		"the store has no clock":           {func(time.Duration) time.Duration { return 0 }, hour, 0, seenTTL, seenTTL},
		"its clock was set ahead just now": {setAt(0, hour), hour, hour + time.Second, seenTTL, seenTTL},
		"its clock was set back just now":  {setAt(0, -30*time.Minute), hour, time.Minute, seenTTL, seenTTL},
		"its clock was set a while ago":    {setAt(-6*time.Second, hour), hour, hour + 7*time.Second, 5 * time.Second, 7500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLooking(c.store, c.up)
			taken := c.store(0) - c.silent
			for after := time.Duration(0); ; after += 250 * time.Millisecond {
				dead, again := l.look(after, 1, taken)
				switch {
				case dead && after < c.earliest:
					t.Fatalf("it is taken for dead after %v, and %v is the earliest", after, c.earliest)
				case dead:
					return
				case after >= c.latest:
					t.Fatalf("it is not taken for dead after %v", after)
				case again <= 0:
					t.Fatalf("after %v it says to look again in %v", after, again)
				}
			}
		})
	}
}

// Clocks are set forward, and machines that slept wake up; a session that is renewed goes on.
func TestASessionThatIsRenewedIsNeverTakenForDead(t *testing.T) {
	l := newLooking(func(after time.Duration) time.Duration { return time.Hour + 3*after }, time.Hour)
	for i := range 100 {
		if dead, _ := l.look(time.Duration(i)*seenTTL/renewals, byte(i+1), time.Minute); dead {
			t.Fatal("it is taken for dead")
		}
	}
}

// A process that tries in a loop, against ever other holders, remembers no more of them than it has use for.
func TestATryRemembersOnlySoManyHolders(t *testing.T) {
	d := New(newQuietStore())
	for range 3 * mostRemembered {
		if !d.mayAsk(sessionID(NewVersion())) {
			t.Fatal("nobody has asked for that session yet")
		}
	}
	if n := len(d.asked); n > mostRemembered+1 {
		t.Errorf("%d are remembered", n)
	}
}
