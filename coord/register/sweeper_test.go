package register_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// unlisted is a store at the end of a link on which small answers arrive, and long ones do not.
type unlisted struct {
	register.Store
	trouble atomic.Bool
	fails   atomic.Bool // once
	stalls  atomic.Bool // once
}

func (u *unlisted) List(ctx context.Context, prefix string, each func(register.Item) bool) error {
	if u.trouble.Load() || u.fails.CompareAndSwap(true, false) {
		return errors.New("the list did not arrive")
	}
	if strings.HasPrefix(prefix, "line") && u.stalls.CompareAndSwap(true, false) {
		time.Sleep(5 * time.Second)
	}
	return u.Store.List(ctx, prefix, each)
}

// Who can renew the sweeper's register, and cannot sweep, would keep all others from it.
func TestASweeperThatCannotSweepLeavesItToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		store := memory.NewStore()
		link := &unlisted{Store: store}
		sweeper, _ := open(t, link)
		defer shut(t, sweeper)
		time.Sleep(time.Minute) // so that it is the sweeper
		other, _ := open(t, store)
		defer shut(t, other)
		dying, s := open(t, store)
		defer shut(t, dying)
		join(t, s, "line")
		time.Sleep(time.Minute)
		link.trouble.Store(true)
		s.Abandon(ctx)
		time.Sleep(10 * time.Minute)
		if all, err := other.Line(ctx, "line"); err != nil || len(all) > 0 {
			t.Errorf("%v stand, %v", all, err)
		}
	})
}

// A list that was held up once says little about how long lists take, and perhaps there is nobody else who sweeps.
func TestASweeperThatWasHeldUpIsSoonBack(t *testing.T) {
	const ttl = 10 * time.Second
	for name, once := range map[string]func(*unlisted) *atomic.Bool{
		"a round failed": func(u *unlisted) *atomic.Bool { return &u.fails },
		"a list stalled": func(u *unlisted) *atomic.Bool { return &u.stalls },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				store := memory.NewStore()
				link := &unlisted{Store: store}
				sweeper, _ := open(t, link, register.WithTTL(ttl))
				defer shut(t, sweeper)
				time.Sleep(time.Minute) // so that it is the sweeper
				dying, s := open(t, store, register.WithTTL(ttl))
				join(t, s, "line")
				once(link).Store(true)
				time.Sleep(5 * ttl / 2)
				if once(link).Load() {
					t.Error("nothing was listed")
				}
				s.Abandon(ctx)
				shut(t, dying)
				time.Sleep(7 * ttl / 2)
				if all, err := sweeper.Line(ctx, "line"); err != nil || len(all) > 0 {
					t.Errorf("%v stand, %v", all, err)
				}
			})
		})
	}
}

// The lines are looked through when a session has ended, and not only once in a TTL, which may be long.
func TestWhatADeadSessionLeavesIsSweptAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		store := memory.NewStore()
		sweeper, _ := open(t, store, register.WithTTL(time.Hour))
		defer shut(t, sweeper)
		for range 3 { // the first one may be found by the sweeper's first look through all lines
			dying, s := open(t, store, register.WithTTL(10*time.Second))
			join(t, s, "line")
			time.Sleep(time.Minute)
			s.Abandon(ctx)
			shut(t, dying)
			time.Sleep(2 * time.Minute)
			if all, err := sweeper.Line(ctx, "line"); err != nil || len(all) > 0 {
				t.Errorf("%v stand, %v", all, err)
			}
		}
	})
}

// Who may write one register could keep everybody from sweeping with a sweeper that nobody ever is, or that says to be slow.
func TestASweeperThatIsNoneIsReplaced(t *testing.T) {
	for name, says := range map[string]string{
		"nothing":     "",
		"nonsense":    "nonsense",
		"a long TTL":  "\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00\x00",
		"half of one": "\x01\xff",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				store := memory.NewStore()
				forged := register.Swap{Key: "sweeper", Next: register.NewVersion(), Value: []byte(says)}
				if _, err := store.Swap(ctx, forged); err != nil {
					t.Fatal(err)
				}
				other, _ := open(t, store)
				defer shut(t, other)
				dying, s := open(t, store)
				defer shut(t, dying)
				join(t, s, "line")
				s.Abandon(ctx)
				time.Sleep(10 * time.Minute)
				if all, err := other.Line(ctx, "line"); err != nil || len(all) > 0 {
					t.Errorf("%v stand, %v", all, err)
				}
			})
		})
	}
}

// spoilt is a store in which something stands in the place of the sweeper's register that nobody can read.
type spoilt struct{ register.Store }

func (s spoilt) Read(ctx context.Context, key string) (register.Item, error) {
	if key == "sweeper" {
		return register.Item{}, fmt.Errorf("%w: what stands there is not ours", driver.ErrDenied)
	}
	return s.Store.Read(ctx, key)
}

func TestASweeperThatCannotBeReadIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		store := memory.NewStore()
		forged := register.Swap{Key: "sweeper", Next: register.NewVersion(), Value: []byte("nonsense")}
		if _, err := store.Swap(ctx, forged); err != nil {
			t.Fatal(err)
		}
		other, _ := open(t, spoilt{store})
		defer shut(t, other)
		dying, s := open(t, spoilt{store})
		defer shut(t, dying)
		join(t, s, "line")
		s.Abandon(ctx)
		time.Sleep(10 * time.Minute)
		if all, err := other.Line(ctx, "line"); err != nil || len(all) > 0 {
			t.Errorf("%v stand, %v", all, err)
		}
	})
}

// Jobs live for twenty seconds each, and one in ten is killed. Nobody sees for long enough that the one who sweeps is gone.
func TestASweeperIsFollowedWhereAllLiveForAMoment(t *testing.T) {
	for name, see := range map[string]func(register.Store) register.Store{
		"by a clock":    func(s register.Store) register.Store { return s },
		"without clock": func(s register.Store) register.Store { return timeless{s} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := see(memory.NewStore())
				for n := range 100 {
					c, crash := process(store, 1)
					h, err := mutex.New(c, fmt.Sprint("job/", n)).Lock(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if time.Sleep(20 * time.Second); n%10 == 0 {
						crash()
					} else {
						h.Release()
						c.Close()
					}
					time.Sleep(40 * time.Second)
				}
				sessions := 0
				store.List(t.Context(), "session/", func(register.Item) bool { sessions++; return true })
				if sessions > 1 {
					t.Errorf("%d sessions of processes that were killed stand", sessions)
				}
			})
		})
	}
}
