package register_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func open(t *testing.T, store register.Store, opts ...register.Option) (*register.Driver, driver.Session) {
	t.Helper()
	d := register.New(store, opts...)
	s, err := d.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d, s
}

func shut(t *testing.T, d *register.Driver) {
	t.Helper()
	if err := d.Close(context.Background()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func join(t *testing.T, s driver.Session, line string) driver.Place {
	t.Helper()
	p, _, err := s.Join(t.Context(), driver.Entry{Line: line, Kind: rules.Lock})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func leave(t *testing.T, p driver.Place) {
	t.Helper()
	if err := p.Leave(t.Context(), true); err != nil {
		t.Fatal(err)
	}
}

func lines(t *testing.T, store register.Store) (n int) {
	t.Helper()
	if err := store.List(t.Context(), "line/", func(register.Item) bool { n++; return true }); err != nil {
		t.Fatal(err)
	}
	return n
}

// A request may be late by an hour; a late one that was to make the line would find it missing, as it expects.
func TestALineStaysForAnHourWhenItIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		d, s := open(t, store)
		defer shut(t, d)
		p := join(t, s, "line")
		leave(t, p)
		if time.Sleep(55 * time.Minute); lines(t, store) != 1 {
			t.Error("it has gone before the hour was over")
		}
		if time.Sleep(time.Hour); lines(t, store) != 0 {
			t.Error("it stays for ever")
		}
	})
}

// Where all processes are short-lived, nobody sees an hour pass.
func TestALineThatIsLongEmptyIsDeletedByWhoHasJustCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		d, s := open(t, store)
		leave(t, join(t, s, "line"))
		shut(t, d)
		for _, after := range []struct {
			time.Duration
			stays bool
		}{{3 * time.Hour, true}, {24 * time.Hour, true}, {24 * time.Hour, true}, {3 * time.Hour, false}} {
			time.Sleep(after.Duration)
			d, _ := open(t, store)
			time.Sleep(time.Minute)
			shut(t, d)
			if stays := lines(t, store) > 0; stays != after.stays {
				t.Errorf("%v later it stays: %v", after.Duration, stays)
			}
		}
	})
}

func TestTokensRiseAlsoWhenALineWasDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		d, s := open(t, store)
		defer shut(t, d)
		var last driver.Token
		for round := range 5 {
			for range 3 {
				p := join(t, s, "line")
				if token := p.Node().Token; token <= last {
					t.Fatalf("round %d: token %d after %d", round, token, last)
				}
				last = p.Node().Token
				leave(t, p)
			}
			if time.Sleep(3 * time.Hour); lines(t, store) != 0 {
				t.Fatal("the line was not deleted")
			}
		}
	})
}

func TestALineWithAMemoIsNotDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		d, s := open(t, store)
		defer shut(t, d)
		p := join(t, s, "line")
		place := p.(interface {
			Remember(ctx context.Context, memo []byte) error
		})
		if err := place.Remember(t.Context(), []byte("slot 7 is done")); err != nil {
			t.Fatal(err)
		}
		leave(t, p)
		if err := place.Remember(t.Context(), []byte("too late")); err != driver.ErrRemoved {
			t.Errorf("one who has left may write: %v", err)
		}
		time.Sleep(10 * time.Hour)
		if memo, err := d.Memo(t.Context(), "line"); err != nil || string(memo) != "slot 7 is done" {
			t.Errorf("it remembers %q, %v", memo, err)
		}
	})
}

// A lost race is tried again at once: a process that waits a little each time waits for ever.
func TestNobodyBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		turns := make([]int, 8)
		var all sync.WaitGroup
		for i := range turns {
			c := coord.NewClient(register.New(store))
			defer c.Close()
			all.Go(func() {
				m := mutex.New(c, "line")
				for range 100 {
					h, err := m.Lock(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					turns[i]++
					h.Release()
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took > time.Millisecond {
			t.Errorf("they slept for %v", took)
		}
	})
}

// forgetful is a store that may forget.
type forgetful struct {
	*memory.Store
	mu     sync.Mutex
	forgot bool
	since  time.Time
}

func (f *forgetful) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgot, f.since = true, time.Now()
}

func (f *forgetful) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.forgot {
		return register.ErrForgot
	}
	return nil
}

func (f *forgetful) Read(ctx context.Context, key string) (register.Item, error) {
	if err := f.err(); err != nil {
		return register.Item{}, err
	}
	return f.Store.Read(ctx, key)
}

func (f *forgetful) Swap(ctx context.Context, s register.Swap) (register.Item, error) {
	if err := f.err(); err != nil {
		return register.Item{}, err
	}
	return f.Store.Swap(ctx, s)
}

func (f *forgetful) Memory(context.Context) (register.Memory, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgot = false
	return register.Memory{ID: f.since.String(), For: time.Since(f.since)}, nil
}

func TestNobodyIsGrantedUntilAllHaveStoppedWhenAStoreForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &forgetful{Store: memory.NewStore(), since: time.Now().Add(-24 * time.Hour)}
		long, _ := open(t, f, register.WithTTL(20*time.Second)) // others may use a longer TTL
		defer shut(t, long)
		c := coord.NewClient(register.New(f, register.WithTTL(2*time.Second)))
		defer c.Close()
		h, err := mutex.New(c, "line").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f.forget()
		forgot := time.Now()
		if time.Sleep(time.Second); !errors.Is(h.Err(), coord.ErrLost) || !errors.Is(h.Err(), coord.ErrForgot) {
			t.Errorf("the holder is told: %v", h.Err())
		}
		next, err := mutex.New(c, "other line").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(forgot); waited < 20*time.Second || waited > 30*time.Second {
			t.Errorf("the next one is granted %v after the store forgot; the longest TTL is 20s", waited)
		}
		next.Release()
	})
}

// A client that comes later knows only what the store says, and those who held may go on for as long as a session lasts.
func TestWhoeverComesAfterAStoreHasForgottenWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &forgetful{Store: memory.NewStore(), since: time.Now().Add(-24 * time.Hour)}
		f.forget()
		forgot := time.Now()
		var log strings.Builder
		c := coord.NewClient(register.New(f, register.WithTTL(20*time.Second), register.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))))
		defer c.Close()
		h, err := mutex.New(c, "line").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(forgot); waited < 20*time.Second || waited > 30*time.Second {
			t.Errorf("the first one is granted %v after the store forgot; a TTL is 20s", waited)
		}
		if !strings.Contains(log.String(), "may have forgotten who holds") {
			t.Errorf("the log does not say why nobody is granted: %s", &log)
		}
		h.Release()
	})
}

// A store shows something older than what was seen before: it has lost swaps, and does not know it.
func TestAStoreThatGoesBackEndsAllSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		d, s := open(t, store)
		defer shut(t, d)
		p := join(t, s, "line")
		id, _, _ := strings.Cut(p.Node().ID, "-")
		backup, err := store.Read(t.Context(), "session/"+id)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		putBack(t, store, backup)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := p.Watch(ctx); !errors.Is(err, driver.ErrSessionEnded) || !strings.Contains(err.Error(), "forgotten") {
			t.Errorf("Watch: %v", err)
		}
	})
}

// putBack makes a register what it was before.
func putBack(t *testing.T, store register.Store, backup register.Item) {
	t.Helper()
	now, err := store.Read(t.Context(), backup.Key)
	if err == nil {
		_, err = store.Swap(t.Context(), register.Swap{Key: backup.Key, Old: now.Version, Next: register.NewVersion(), Value: backup.Value})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Whoever can write to a line can put it back, again and again.
func TestALineThatGoesBackHarmsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		d, s := open(t, store)
		defer shut(t, d)
		other := join(t, s, "other")
		leave(t, join(t, s, "his")) // and stands there again in what is put back
		before := join(t, s, "his")
		backup, err := store.Read(t.Context(), "line/his")
		if err != nil {
			t.Fatal(err)
		}
		leave(t, before)
		holder := join(t, s, "his")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for range 3 {
			putBack(t, store, backup)
			if err := holder.Watch(ctx); !errors.Is(err, driver.ErrRemoved) {
				t.Errorf("Watch: %v", err)
			}
			leave(t, join(t, s, "more"))
			select {
			case <-s.Done():
				t.Fatal("the session has ended")
			default:
			}
			began := time.Now()
			holder = join(t, s, "his")
			if waited := time.Since(began); waited < 9*time.Second || waited > 11*time.Second {
				t.Errorf("somebody joins the line %v after it has gone back", waited)
			}
			if !holder.(interface{ Last() bool }).Last() || holder.Node().Token == 0 {
				t.Error("it does not stand alone")
			}
			if l, err := d.Line(t.Context(), "his"); err != nil || len(l) != 1 {
				t.Errorf("there stand %v, %v", l, err)
			}
			ctx, cancel = context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
		}
		if err := other.Watch(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Watch of another line: %v", err)
		}
	})
}

func TestASessionThatIsEndedHearsOfItAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		d, s := open(t, store)
		defer shut(t, d)
		operator, _ := open(t, store)
		defer shut(t, operator)
		id, _, _ := strings.Cut(join(t, s, "line").Node().ID, "-")
		if err := operator.EndSession(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		select {
		case <-s.Done():
		case <-time.After(time.Second):
			t.Error("it has not heard within a second; it is renewed every two and a half")
		}
		if nodes, err := operator.Line(t.Context(), "line"); err != nil || len(nodes) > 0 {
			t.Errorf("%v stand, %v", nodes, err)
		}
	})
}

// setAhead is a store whose clock is set ahead once, as on a machine that starts with a wrong date.
type setAhead struct {
	register.Store
	by    time.Duration
	since atomic.Pointer[time.Time] // when it was set; nil: not yet
}

func (s *setAhead) shown(it register.Item) register.Item {
	if set := s.since.Load(); set != nil && !it.Version.IsZero() && it.Age > time.Since(*set) {
		it.Age += s.by
	}
	return it
}

func (s *setAhead) Read(ctx context.Context, key string) (register.Item, error) {
	it, err := s.Store.Read(ctx, key)
	return s.shown(it), err
}

func (s *setAhead) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	return s.Store.List(ctx, prefix, func(it register.Item) bool { return yield(s.shown(it)) })
}

// Somebody's request to make a line is late. Meanwhile the line was made by others, and was left, and the clock was set ahead by two days.
func TestTokensRiseThoughTheClockIsSetAhead(t *testing.T) {
	for _, raised := range []string{"not", "before the clock is set", "afterwards"} {
		t.Run("the epoch is raised "+raised, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &setAhead{Store: memory.NewStore(), by: 48 * time.Hour}
				d, s := open(t, store)
				defer shut(t, d)
				late := register.Swap{Key: "line/line", Next: register.NewVersion()}
				made := &firstSwap{Store: store, key: late.Key}
				other, o := open(t, made)
				leave(t, join(t, o, "line"))
				shut(t, other)
				late.Value = made.value // as whoever had seen that there was no line would make it
				last := join(t, s, "line")
				leave(t, last)
				raise := func(when string) {
					if when == raised {
						it, err := store.Read(t.Context(), "epoch")
						if err == nil {
							_, err = store.Swap(t.Context(), register.Swap{Key: "epoch", Old: it.Version, Next: register.NewVersion(), Value: []byte{it.Value[0], it.Value[1] + 1}})
						}
						if err != nil {
							t.Fatal(err)
						}
					}
				}
				time.Sleep(time.Second)
				raise("before the clock is set")
				time.Sleep(time.Second)
				set := time.Now()
				store.since.Store(&set)
				raise("afterwards")
				time.Sleep(5 * time.Minute)
				_, _ = store.Swap(t.Context(), late)
				all, err := d.Line(t.Context(), "line")
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range all {
					if n.Token <= last.Node().Token {
						t.Errorf("token %d after %d", n.Token, last.Node().Token)
					}
				}
			})
		})
	}
}

// firstSwap keeps what a register was made with.
type firstSwap struct {
	register.Store
	key   string
	value []byte
}

func (s *firstSwap) Swap(ctx context.Context, sw register.Swap) (register.Item, error) {
	if sw.Key == s.key && sw.Old.IsZero() {
		s.value = sw.Value
	}
	return s.Store.Swap(ctx, sw)
}
