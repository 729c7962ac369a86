package register_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
	"github.com/turnwise/turnwise/internal/memory"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// crashing is a store as seen by a process that may die.
type crashing struct {
	register.Store
	dead chan struct{}
}

var errDead = errors.New("the process is dead")

func (c *crashing) Swap(ctx context.Context, s register.Swap) (register.Item, error) {
	select {
	case <-c.dead:
		return register.Item{}, errDead
	default:
		return c.Store.Swap(ctx, s)
	}
}

// process is on one of some machines, each of which has been up for as long as its own clock says.
func process(store register.Store, on int) (c *coord.Client, crash func()) {
	link := &crashing{store, make(chan struct{})}
	d := register.New(link)
	begun := time.Now()
	register.SetMachine(d, byte(on), func() time.Duration { return begun.Sub(year) + time.Since(begun) })
	c = coord.NewClient(d)
	return c, func() {
		close(link.dead)
		c.Close()
	}
}

var year = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func try(t *testing.T, store register.Store) (*coord.Hold, error) { return tryOn(t, store, 1) }

func tryOn(t *testing.T, store register.Store, machine int) (*coord.Hold, error) {
	c, crash := process(store, machine)
	h, err := mutex.New(c, "job").TryLock(t.Context())
	crash()
	return h, err
}

// A job is started every minute, and gives up if another one runs. One crashes.
func TestATryThatFindsADeadHolderDoesNotFindItForEver(t *testing.T) {
	twoLooksAreEnough(t, func(s register.Store) register.Store { return s })
}

// twoLooksAreEnough has a process die in a line, and others try that see the store like this.
func twoLooksAreEnough(t *testing.T, see func(register.Store) register.Store) {
	synctest.Test(t, func(t *testing.T) {
		store := see(memory.NewStore())
		if _, err := try(t, store); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := try(t, store); !errors.Is(err, coord.ErrBusy) {
			t.Fatalf("a single look was enough: %v", err)
		}
		time.Sleep(time.Minute)
		if _, err := try(t, store); err != nil {
			t.Fatalf("two looks were not enough: %v", err)
		}
	})
}

// hinted is a store in which somebody has made the registers of all suspicions, and nobody else may write there.
type hinted struct{ register.Store }

func (s hinted) Read(ctx context.Context, key string) (register.Item, error) {
	if strings.HasPrefix(key, "suspect/") && !strings.Contains(key, "-") {
		return register.Item{}, storekit.NotOurs("%q is not ours", key)
	}
	return s.Store.Read(ctx, key)
}

// Whoever can make a register that he guesses keeps no dead holder in line with that.
func TestATryFindsADeadHolderThoughWhatIsSaidOfItIsSpoilt(t *testing.T) {
	twoLooksAreEnough(t, func(s register.Store) register.Store { return hinted{s} })
}

func TestTriesNeverEndALivingSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		c, _ := process(store, 1)
		defer c.Close()
		h, err := mutex.New(c, "job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			time.Sleep(7 * time.Second)
			if _, err := try(t, store); !errors.Is(err, coord.ErrBusy) {
				t.Fatalf("tried beside the holder: %v", err)
			}
		}
		if err := h.Release(); err != nil {
			t.Fatal(err)
		}
	})
}

// Whoever may read sessions and make registers, and change none, says that our machine has seen a session stand still for an hour. The
// holder's clock is ahead by a little, so to those who try it looks dead at any time.
func TestWhatAStrangerSaysOfASessionEndsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		c, _ := process(aheadBy{store, time.Second}, 2)
		defer c.Close()
		h, err := mutex.New(c, "job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		session, _, _ := strings.Cut(h.Node().ID, "-")
		time.Sleep(7600 * time.Millisecond) // it was renewed just now
		if err := register.SayThatASessionStandsStill(t.Context(), store, 1, time.Since(year), session); err != nil {
			t.Fatal(err)
		}
		if _, err := try(t, store); !errors.Is(err, coord.ErrBusy) {
			t.Errorf("somebody was let in: %v", err)
		}
		if err := h.Release(); err != nil {
			t.Error(err)
		}
	})
}

// timeless is a store without a clock, in which wall clocks are all that tells.
type timeless struct{ register.Store }

func (s timeless) Read(ctx context.Context, key string) (register.Item, error) {
	it, err := s.Store.Read(ctx, key)
	it.Age, it.Clock = -1, 0
	return it, err
}

// aheadBy has the owner of each session say that it is later than it is.
type aheadBy struct {
	register.Store
	ahead time.Duration
}

func (s aheadBy) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	if next, ok := register.SetWallClock(w, s.ahead); ok {
		w = next
	}
	return s.Store.Swap(ctx, w)
}

// The store cannot tell how old anything is, or the one that died had a clock that was an hour ahead. Two tries on one machine are
// enough all the same. On another machine nobody knows for how long the session has stood still.
func TestATryOnTheSameMachineNeedsNoClock(t *testing.T) {
	for name, c := range map[string]struct {
		see   func(register.Store) register.Store
		ahead time.Duration
	}{
		"the store has no clock":             {func(s register.Store) register.Store { return timeless{s} }, 0},
		"a wall clock was ahead":             {func(s register.Store) register.Store { return s }, time.Hour},
		"no clock, and a wall clock was off": {func(s register.Store) register.Store { return timeless{s} }, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := c.see(memory.NewStore())
				if _, err := try(t, aheadBy{store, c.ahead}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				var seen time.Time
				for on := 3; on >= 1; on-- {
					seen = time.Now()
					if _, err := tryOn(t, store, on); !errors.Is(err, coord.ErrBusy) {
						t.Fatalf("a single look was enough: %v", err)
					}
				}
				time.Sleep(time.Until(seen.Add(9 * time.Second)))
				if _, err := tryOn(t, store, 1); !errors.Is(err, coord.ErrBusy) {
					t.Fatalf("it has not been seen for a TTL: %v", err)
				}
				time.Sleep(time.Until(seen.Add(10 * time.Second)))
				if _, err := tryOn(t, store, 4); !errors.Is(err, coord.ErrBusy) {
					t.Fatalf("a machine that has not seen it went on: %v", err)
				}
				if _, err := tryOn(t, store, 2); err != nil {
					t.Fatalf("two looks were not enough: %v", err)
				}
			})
		})
	}
}

// A job waits for four seconds at most, and is started each minute. That is less than it takes to see a session stand still, and
// what one run has seen would be lost with it.
func TestShortWaitsGetPastADeadHolder(t *testing.T) {
	for name, see := range map[string]func(register.Store) register.Store{
		"by a clock":    func(s register.Store) register.Store { return s },
		"without clock": func(s register.Store) register.Store { return timeless{s} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := see(memory.NewStore())
				wait := func() error {
					c, crash := process(store, 1)
					defer crash()
					ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
					defer cancel()
					_, err := mutex.New(c, "job").Lock(ctx)
					return err
				}
				if _, err := try(t, store); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if err := wait(); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("a single wait was enough: %v", err)
				}
				time.Sleep(time.Minute)
				if err := wait(); err != nil {
					t.Fatalf("two waits were not enough: %v", err)
				}
			})
		})
	}
}

// Two machines that were started from one snapshot have one name, and each has been up for another time.
func TestTwoMachinesFromOneSnapshotAreTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		// The holder's wall clock is behind, so its session looks dead to everybody.
		d := register.New(aheadBy{store, -time.Hour})
		holder := coord.NewClient(d)
		defer holder.Close()
		if _, err := mutex.New(holder, "job").Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		for try := range 6 {
			d := register.New(store)
			register.SetMachine(d, 1, func() time.Duration { return time.Duration(try) * time.Hour })
			c := coord.NewClient(d)
			defer c.Close()
			if _, err := mutex.New(c, "job").TryLock(t.Context()); !errors.Is(err, coord.ErrBusy) {
				t.Fatalf("try %d went beside the holder: %v", try, err)
			}
		}
	})
}

// They try in turn, and the holder is dead. What one has seen does not take away what the other has.
func TestTwoMachinesFromOneSnapshotGetPastADeadHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := timeless{memory.NewStore()}
		if _, err := try(t, store); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		begun := time.Now()
		for n := range 4 {
			d := register.New(store)
			register.SetMachine(d, 1, func() time.Duration { return time.Duration(n%2)*time.Hour + time.Since(begun) })
			c := coord.NewClient(d)
			_, err := mutex.New(c, "job").TryLock(t.Context())
			c.Close()
			if err == nil && n >= 2 {
				return
			} else if !errors.Is(err, coord.ErrBusy) {
				t.Fatalf("try %d: %v", n, err)
			}
			time.Sleep(20 * time.Second)
		}
		t.Error("two looks of each were not enough")
	})
}

// Two are resumed from one snapshot, a second apart, so that their uptimes differ by that. One has seen a session that is cut off, whose
// holder's wall clock is wrong. The other must not end it before the holder has stopped.
func TestTwoClonesThatWereResumedOneAfterTheOtherAreTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		link := &cutOff{crashing{aheadBy{store, -time.Hour}, make(chan struct{})}}
		holder := coord.NewClient(register.New(link))
		defer holder.Close()
		h, err := mutex.New(holder, "job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2501 * time.Millisecond) // it has just been renewed
		close(link.dead)
		resumed := time.Now().Add(-time.Minute)
		clone := func(earlier time.Duration) error {
			d := register.New(store)
			register.SetMachine(d, 1, func() time.Duration { return 24*time.Hour + time.Since(resumed) + earlier })
			c := coord.NewClient(d)
			defer c.Close()
			_, err := mutex.New(c, "job").TryLock(t.Context())
			return err
		}
		if err := clone(0); err == nil {
			t.Fatal("a single look was enough")
		}
		for began := time.Now(); time.Since(began) < 30*time.Second; time.Sleep(10 * time.Millisecond) {
			if err := clone(1200 * time.Millisecond); err != nil {
				continue
			}
			if h.Err() == nil {
				t.Errorf("two hold %v after the first look", time.Since(began))
			}
			return
		}
		t.Error("nobody gets past the dead holder")
	})
}

// cutOff is a store as seen by a process from which nothing comes or goes any more.
type cutOff struct{ crashing }

func (c *cutOff) Read(ctx context.Context, key string) (register.Item, error) {
	select {
	case <-c.dead:
		return register.Item{}, errDead
	default:
		return c.Store.Read(ctx, key)
	}
}

// The store has no clock, and a suspicion has room for eight machines. As many have tried once, and are gone for good.
func TestMachinesThatNeverComeBackKeepNobodyWaiting(t *testing.T) {
	for name, later := range map[string]int{"one that comes each minute": 1, "twelve that come in turn": 12} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := timeless{memory.NewStore()}
				if _, err := try(t, store); err != nil {
					t.Fatal(err)
				}
				for on := range 8 {
					time.Sleep(time.Minute)
					if _, err := tryOn(t, store, 10+on); !errors.Is(err, coord.ErrBusy) {
						t.Fatal(err)
					}
				}
				for n := range 24 * 60 {
					time.Sleep(time.Minute)
					if _, err := tryOn(t, store, 100+n%later); err == nil {
						return
					}
				}
				t.Error("the holder died a day ago, one tries each minute, and is still told: busy")
			})
		})
	}
}

// Each of many tries once. The store's clock tells how old the suspicion is, if not everybody writes it anew.
func TestManyMachinesThatTryLetASuspicionGrowOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		if _, err := try(t, store); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for on := range 15 {
			if _, err := tryOn(t, store, 10+on); err == nil {
				return
			}
			time.Sleep(time.Second)
		}
		t.Error("nobody gets past the dead holder")
	})
}
