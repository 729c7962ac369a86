package register_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// meddled is a store with somebody in between. What is nil is left alone.
type meddled struct {
	register.Store
	read func(key string)
	swap func(s register.Swap, do func() (register.Item, error)) (register.Item, error)
}

func (m *meddled) Read(ctx context.Context, key string) (register.Item, error) {
	if m.read != nil {
		m.read(key)
	}
	return m.Store.Read(ctx, key)
}

func (m *meddled) Swap(ctx context.Context, s register.Swap) (register.Item, error) {
	do := func() (register.Item, error) { return m.Store.Swap(ctx, s) }
	if m.swap != nil {
		return m.swap(s, do)
	}
	return do()
}

// An empty line is deleted after an hour, watched or not. A client that watches it makes it again.
func TestAWatcherOfALineThatWasDeletedGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		sweeper, s := open(t, store)
		defer shut(t, sweeper)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		reads := 0
		d := register.New(&meddled{Store: store, read: func(string) {
			if reads++; reads > 20_000 {
				cancel()
			}
		}})
		defer shut(t, d)
		first := make(chan driver.Node, 1)
		go func() {
			n, err := drivertest.FirstNode(ctx, d, "line", &driver.Node{})
			if err != nil {
				t.Errorf("First: %v, after %d reads", err, reads)
			}
			first <- n
		}()
		time.Sleep(5 * time.Hour)
		p := join(t, s, "line")
		began := time.Now()
		if n := <-first; n.ID != p.Node().ID || time.Since(began) > time.Second {
			t.Errorf("%v is first, which it hears after %v", n, time.Since(began))
		}
	})
}

// The sweeper knows the line as it was when it last stood there itself.
func TestTheSweeperLooksBeforeItSaysThatNobodyDeadIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		d, s := open(t, store)
		defer shut(t, d)
		leave(t, join(t, s, "line"))
		time.Sleep(time.Minute) // so that it is the sweeper
		other, dying := open(t, store)
		defer shut(t, other)
		join(t, dying, "line")
		dying.Abandon(t.Context())
		time.Sleep(5 * time.Minute)
		if nodes, err := d.Line(t.Context(), "line"); err != nil || len(nodes) > 0 {
			t.Errorf("%v stand for ever, %v", nodes, err)
		}
	})
}

// The words of those who have left are forgotten when there are too many, even in the swap with which somebody joins.
func TestAJoinAndLeavesInOneSwapWhenManyHaveLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		slow := false
		d, s := open(t, &meddled{Store: store, swap: func(w register.Swap, do func() (register.Item, error)) (register.Item, error) {
			if strings.HasPrefix(w.Key, "line/") && slow {
				time.Sleep(time.Second / 10)
			}
			return do()
		}})
		defer shut(t, d)
		var others, mine []driver.Place
		for range 40 {
			o, os := open(t, store)
			defer shut(t, o)
			others = append(others, join(t, os, "line"))
		}
		for range 20 {
			mine = append(mine, join(t, s, "line"))
		}
		for _, p := range others[1:] {
			leave(t, p)
		}
		slow = true
		var all sync.WaitGroup
		all.Go(func() { leave(t, mine[0]) }) // while this is under way the others gather
		time.Sleep(time.Millisecond)
		var me driver.Place
		all.Go(func() { me = join(t, s, "line") })
		time.Sleep(time.Millisecond)
		for _, p := range mine[1:] {
			all.Go(func() { leave(t, p) })
		}
		all.Wait()
		nodes, err := d.Line(t.Context(), "line")
		if err != nil || len(nodes) != 2 || nodes[1].ID != me.Node().ID {
			t.Errorf("%v stand, %v; I am %v", nodes, err, me.Node().ID)
		}
	})
}

// A semaphore's weights may be bytes: no two are alike.
func TestALineForgetsWhatNobodyAsksForAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		d, s := open(t, store)
		defer shut(t, d)
		var last driver.Place
		for i := range 2000 {
			p, _, err := s.Join(t.Context(), driver.Entry{Line: "line", Kind: rules.Permits(int64(i+1), 1_000_000)})
			if err != nil {
				t.Fatal(err)
			}
			if last != nil {
				leave(t, last)
			}
			last = p
		}
		if it, err := store.Read(t.Context(), "line/line"); err != nil || len(it.Value) > 1000 {
			t.Errorf("one stands in the line, of %d bytes, %v", len(it.Value), err)
		}
	})
}

var errLost = errors.New("the answer is lost")

// Those in the same process are told by the process itself; but it does not know whether the swap was applied.
func TestAWaiterOfTheSameProcessIsToldWhenTheAnswerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lose := false
		d, s := open(t, &meddled{Store: memory.NewStore(), swap: func(w register.Swap, do func() (register.Item, error)) (register.Item, error) {
			it, err := do()
			if strings.HasPrefix(w.Key, "line/") && lose {
				lose = false
				return register.Item{}, errLost
			}
			return it, err
		}})
		defer shut(t, d)
		holder := join(t, s, "line")
		waiter, ahead, err := s.Join(t.Context(), driver.Entry{Line: "line", Kind: rules.Lock})
		if err != nil {
			t.Fatal(err)
		}
		granted := make(chan time.Time, 1)
		go func() {
			if _, err := waiter.Await(t.Context(), ahead); err != nil {
				t.Error(err)
			}
			granted <- time.Now()
		}()
		synctest.Wait()
		lose = true
		left := time.Now()
		leave(t, holder)
		if waited := (<-granted).Sub(left); waited > 100*time.Millisecond {
			t.Errorf("it goes on %v after the holder left", waited)
		}
	})
}

// forgettingWhileOpening forgets while somebody else's session is being opened, and that one is told of it first.
type forgettingWhileOpening struct {
	*forgetful
	listened func()
}

func (f *forgettingWhileOpening) Listen(ctx context.Context, topic string, hear func([]byte)) (func(), error) {
	if f.listened != nil {
		f.listened()
	}
	return f.forgetful.Listen(ctx, topic, hear)
}

func TestAStoreMayForgetWhileASessionIsOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &forgetful{Store: memory.NewStore(), since: time.Now().Add(-24 * time.Hour)}
		store := &forgettingWhileOpening{forgetful: f}
		d := register.New(store)
		defer shut(t, d)
		store.listened = func() {
			store.listened = nil
			f.forget()
			d.Line(t.Context(), "another line")
		}
		began := time.Now()
		s, err := d.Open(t.Context())
		if err == nil && time.Since(began) < register.DefaultTTL && s.Deadline().After(time.Now()) {
			select {
			case <-s.Done():
			default:
				t.Errorf("a session is open %v after the store forgot; others may hold for %v", time.Since(began), register.DefaultTTL)
			}
		}
	})
}

// Others may use a longer TTL, and have not noticed yet that the line went back.
func TestALineThatGoesBackGrantsNobodyUntilTheLongestTTLHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		long, _ := open(t, store, register.WithTTL(time.Minute))
		defer shut(t, long)
		d, s := open(t, store, register.WithTTL(2*time.Second))
		defer shut(t, d)
		leave(t, join(t, s, "line"))
		backup, err := store.Read(t.Context(), "line/line")
		if err != nil {
			t.Fatal(err)
		}
		leave(t, join(t, s, "line"))
		putBack(t, store, backup)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := s.Join(ctx, driver.Entry{Line: "line", Kind: rules.Lock}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "gone back") {
			t.Errorf("Join: %v", err)
		}
		join(t, s, "line")
		if waited := time.Since(began); waited < 55*time.Second {
			t.Errorf("somebody is granted %v after the line was found to have gone back; others may hold for a minute", waited)
		}
	})
}

// A line goes when it has been empty for an hour. Whoever has seen somebody in it since knows that a line that is missing was taken back.
func TestALineThatIsMissingIsNotTakenForAnEmptyOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		d, s := open(t, store, register.WithTTL(time.Minute))
		defer shut(t, d)
		other, sees := open(t, store, register.WithTTL(time.Minute))
		defer shut(t, other)
		join(t, s, "line")
		if _, _, err := sees.Join(t.Context(), driver.Entry{Line: "line", Kind: rules.Lock, Free: func(ahead []driver.Node) bool { return len(ahead) == 0 }}); !errors.Is(err, driver.ErrBusy) {
			t.Fatalf("there is somebody in the line: %v", err)
		}
		line, err := store.Read(t.Context(), "line/line")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Swap(t.Context(), register.Swap{Key: "line/line", Old: line.Version}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		join(t, sees, "line")
		if waited := time.Since(began); waited < 55*time.Second {
			t.Errorf("somebody is granted %v after a line with a holder has gone", waited)
		}
	})
}

// A store tells only once that it has forgotten. A caller that opens a session must not be the only one to hear of it.
func TestASessionHearsThatTheStoreForgotAlsoIfAnotherIsOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &forgetful{Store: memory.NewStore(), since: time.Now().Add(-24 * time.Hour)}
		d, s := open(t, f)
		defer shut(t, d)
		f.forget()
		if _, err := d.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-s.Done():
		default:
			t.Error("it goes on as if nothing had been forgotten")
		}
	})
}

func remember(t *testing.T, p driver.Place, memo string) error {
	t.Helper()
	return p.(interface {
		Remember(ctx context.Context, memo []byte) error
	}).Remember(t.Context(), []byte(memo))
}

// A sweep takes its time. What is used in the meantime is not deleted: neither a memo, nor a line for which a late request
// may come.
func TestALineThatIsUsedDuringASweepStays(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, p driver.Place){
		"with a memo": func(t *testing.T, p driver.Place) {
			if err := remember(t, p, "slot 7 is done"); err != nil {
				t.Error(err)
			}
		},
		"just so": func(*testing.T, driver.Place) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewStore()
				var s driver.Session
				var began, used atomic.Bool
				sweeper, _ := open(t, &meddled{Store: store, read: func(key string) {
					// The sweeper has listed the line as empty, and is about to delete it.
					if key == "line/line" && began.Load() && used.CompareAndSwap(false, true) {
						p := join(t, s, "line")
						use(t, p)
						leave(t, p)
					}
				}})
				defer shut(t, sweeper)
				time.Sleep(time.Minute)
				var d *register.Driver
				d, s = open(t, store)
				defer shut(t, d)
				leave(t, join(t, s, "line"))
				began.Store(true)
				time.Sleep(90 * time.Minute)
				if n := lines(t, store); n != 1 || !used.Load() {
					t.Errorf("%d lines stand; it was used within the hour: %v", n, used.Load())
				}
			})
		})
	}
}

// The answer to a join is lost, an operator removes the node, and so the node is made again, further back. What was told to
// the first node is not taken for news of the second.
func TestATurnOfANodeThatWasRemovedIsNotTheTurnOfTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		lose := false
		other, os := open(t, store)
		defer shut(t, other)
		holder := join(t, os, "line")
		var last driver.Place
		d, s := open(t, &noRemovals{meddled{Store: store, swap: func(w register.Swap, do func() (register.Item, error)) (register.Item, error) {
			it, err := do()
			if !strings.HasPrefix(w.Key, "line/") || !lose || err != nil {
				return it, err
			}
			lose = false
			leave(t, holder)
			nodes, err := other.Line(t.Context(), "line")
			if err != nil || len(nodes) != 1 {
				t.Errorf("%v, %v", nodes, err)
			}
			last = join(t, os, "line")
			if err := other.Remove(t.Context(), nodes[0]); err != nil {
				t.Error(err)
			}
			return register.Item{}, errLost
		}}})
		defer shut(t, d)
		lose = true
		p, ahead, err := s.Join(t.Context(), driver.Entry{Line: "line", Kind: rules.Lock})
		if err != nil || len(ahead) != 1 || ahead[0].ID != last.Node().ID {
			t.Fatalf("%v, behind %v, %v", p, ahead, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if ahead, err := p.Await(ctx, ahead); err == nil {
			t.Errorf("%v are ahead; but %v stands", ahead, last.Node().ID)
		}
	})
}

// noRemovals is a store that loses notes of removals, and says that something is lost.
type noRemovals struct{ meddled }

func (m *noRemovals) Listen(ctx context.Context, topic string, hear func([]byte)) (func(), error) {
	return m.Store.Listen(ctx, topic, func(note []byte) {
		if len(note) > 2 && note[len(note)-2] == 'R' {
			note = nil
		}
		hear(note)
	})
}

// Something on the way to the store may repeat a request: the answer is then that of the repetition.
func TestAJoinThatIsRepeatedOnTheWayIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		other, os := open(t, store)
		defer shut(t, other)
		repeat := false
		d, s := open(t, &meddled{Store: store, swap: func(w register.Swap, do func() (register.Item, error)) (register.Item, error) {
			if strings.HasPrefix(w.Key, "line/") && repeat {
				repeat = false
				do()
				join(t, os, "line")
			}
			return do()
		}})
		defer shut(t, d)
		repeat = true
		p := join(t, s, "line")
		nodes, err := d.Line(t.Context(), "line")
		if err != nil || len(nodes) != 2 || nodes[0].ID != p.Node().ID {
			t.Errorf("%v stand, %v", nodes, err)
		}
		leave(t, p)
		if nodes, err := d.Line(t.Context(), "line"); err != nil || len(nodes) != 1 {
			t.Errorf("%v stand, %v", nodes, err)
		}
	})
}

func TestWhoHasLostTheTurnDoesNotHearThatItIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewMuteStore()
		d, s := open(t, store)
		defer shut(t, d)
		other, os := open(t, store)
		defer shut(t, other)
		p := join(t, s, "line")
		if err := remember(t, p, "mine"); err != nil {
			t.Fatal(err)
		}
		if err := other.Remove(t.Context(), p.Node()); err != nil {
			t.Fatal(err)
		}
		if err := remember(t, join(t, os, "line"), "the next one's"); err != nil {
			t.Fatal(err)
		}
		if err := remember(t, p, "mine"); err != driver.ErrRemoved {
			t.Errorf("Remember: %v", err)
		}
	})
}

// Whoever remembers something may know the line only as it was before others changed it.
func TestALineIsRememberedForWhoHasNotSeenTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewMuteStore()
		d, s := open(t, store)
		defer shut(t, d)
		other, os := open(t, store)
		defer shut(t, other)
		p := join(t, s, "line")
		join(t, os, "line")
		if err := remember(t, p, "mine"); err != nil {
			t.Fatalf("Remember, by one who stands: %v", err)
		}
	})
}

// forbidden is a store that nobody may read.
type forbidden struct{ register.Store }

func (f forbidden) Read(context.Context, string) (register.Item, error) {
	return register.Item{}, driver.ErrDenied
}

func TestALookThatIsDeniedIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := register.New(forbidden{memory.NewStore()})
		defer shut(t, d)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if _, err := d.Line(ctx, "line"); !errors.Is(err, driver.ErrDenied) || time.Since(began) > 0 {
			t.Errorf("Line: %v, after %v", err, time.Since(began))
		}
	})
}

// full is a store that takes values of at most so many bytes.
func full(store register.Store, most *int) register.Store {
	return &meddled{Store: store, swap: func(w register.Swap, do func() (register.Item, error)) (register.Item, error) {
		if strings.HasPrefix(w.Key, "line/") && len(w.Value) > *most {
			return register.Item{}, register.ErrTooLarge
		}
		return do()
	}}
}

// A wish that makes a full line longer is refused. It does not keep other nodes of the process from leaving.
func TestAnAmendmentOfAFullLineHoldsUpNobody(t *testing.T) {
	for name, amend := range map[string]func(ctx context.Context, p driver.Place) error{
		"an amendment": func(ctx context.Context, p driver.Place) error { return p.Amend(ctx, rules.Lead, make([]byte, 256)) },
		"a memo": func(ctx context.Context, p driver.Place) error {
			return p.(interface {
				Remember(ctx context.Context, memo []byte) error
			}).Remember(ctx, make([]byte, driver.MaxMemo))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				most := 1000
				d, s := open(t, full(memory.NewStore(), &most))
				defer shut(t, d)
				first, second := join(t, s, "line"), join(t, s, "line")
				it, _ := d.Memo(t.Context(), "line")
				most = 100 + len(it)
				refused := make(chan error, 1)
				go func() { refused <- amend(t.Context(), second) }()
				time.Sleep(time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := first.Leave(ctx, true); err != nil {
					t.Errorf("Leave: %v", err)
				}
				select {
				case err := <-refused:
					if !errors.Is(err, register.ErrTooLarge) {
						t.Errorf("it is told %v", err)
					}
				case <-time.After(time.Minute):
					t.Error("nobody says that there is no room")
				}
			})
		})
	}
}

// A thousand joins a second use up an epoch's tokens in three days.
func TestALineThatIsNeverEmptyGoesOnWhenItsTokensRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		d, s := open(t, store)
		defer shut(t, d)
		leave(t, join(t, s, "line"))
		it, err := store.Read(t.Context(), "line/line")
		if err != nil {
			t.Fatal(err)
		}
		// As if the line had been used that often.
		r := it.Value[2:]
		_, n := binary.Uvarint(r)
		value := binary.AppendUvarint(slices.Clone(it.Value[:2]), 2<<28-2)
		value = append(value, r[n:]...)
		if _, err := store.Swap(t.Context(), register.Swap{Key: it.Key, Old: it.Version, Next: register.NewVersion(), Value: value}); err != nil {
			t.Fatal(err)
		}
		var last driver.Token
		for range 10 {
			p, _, err := s.Join(t.Context(), driver.Entry{Line: "line", Kind: rules.Lock})
			if err != nil {
				t.Fatal(err)
			}
			if p.Node().Token <= last {
				t.Fatalf("token %d after %d", p.Node().Token, last)
			}
			last = p.Node().Token
			leave(t, p)
		}
		time.Sleep(3 * time.Hour)
		if lines(t, store) > 0 {
			t.Fatal("the line was not deleted")
		}
		if p := join(t, s, "line"); p.Node().Token <= last {
			t.Errorf("token %d after %d, when the line was deleted", p.Node().Token, last)
		}
	})
}

// A node is amended and, in the same swap, removed by an operator of the same process. Other nodes that go with this swap
// are missed all the same.
func TestAmendedAndRemovedInOneSwap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		slow := false
		d, s := open(t, &meddled{Store: store, swap: func(w register.Swap, do func() (register.Item, error)) (register.Item, error) {
			if strings.HasPrefix(w.Key, "line/") && slow {
				time.Sleep(100 * time.Millisecond)
			}
			return do()
		}})
		defer shut(t, d)
		other, os := open(t, store)
		defer shut(t, other)
		busy, amended, left := join(t, s, "line"), join(t, s, "line"), join(t, s, "line")
		waiter, ahead, err := os.Join(t.Context(), driver.Entry{Line: "line", Kind: rules.Lock, Sight: driver.Sight{Nearest: driver.All}})
		if err != nil {
			t.Fatal(err)
		}
		slow = true
		var all sync.WaitGroup
		all.Go(func() { leave(t, busy) })
		time.Sleep(time.Millisecond)
		all.Go(func() { amended.Amend(t.Context(), rules.Lock, []byte("other data")) })
		time.Sleep(time.Millisecond)
		all.Go(func() {
			if err := d.Remove(t.Context(), amended.Node()); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() { leave(t, left) })
		began := time.Now()
		if _, err := waiter.Await(t.Context(), ahead[2:]); err != nil || time.Since(began) > time.Second {
			t.Errorf("it goes on after %v, %v", time.Since(began), err)
		}
		all.Wait()
	})
}

// Data that is too long for the line is in another register, which may go between two reads.
func TestALookDoesNotShowANodeWithoutItsData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		d, s := open(t, store)
		defer shut(t, d)
		leader, _, err := s.Join(t.Context(), driver.Entry{Line: "line", Kind: rules.Lead, Data: make([]byte, 1000)})
		if err != nil {
			t.Fatal(err)
		}
		proclaim := false
		other := register.New(&meddled{Store: store, read: func(key string) {
			if strings.HasPrefix(key, "data/") && proclaim {
				proclaim = false
				if err := leader.Amend(t.Context(), rules.Lead, make([]byte, 2000)); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
			}
		}})
		defer shut(t, other)
		proclaim = true
		if n, err := drivertest.FirstNode(t.Context(), other, "line", nil); err != nil || len(n.Data) != 2000 {
			t.Errorf("the first has %d bytes of data, %v", len(n.Data), err)
		}
		if err := leader.Amend(t.Context(), rules.Lead, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		proclaim = true
		if all, err := other.Line(t.Context(), "line"); err != nil || len(all) != 1 || len(all[0].Data) != 2000 {
			t.Errorf("the line shows %d nodes, %v", len(all), err)
		}
	})
}

// A process that found no room in a line that was not there does not go by what it knew then.
func TestTokensRiseForOneWhoWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		other, os := open(t, store)
		defer shut(t, other)
		time.Sleep(time.Minute) // so that it is the sweeper
		most := 1000
		d, s := open(t, full(store, &most))
		defer shut(t, d)
		most = 10
		if _, _, err := s.Join(t.Context(), driver.Entry{Line: "line", Kind: rules.Lock}); !errors.Is(err, register.ErrTooLarge) {
			t.Fatal(err)
		}
		most = 1000
		p := join(t, os, "line")
		last := p.Node().Token
		leave(t, p)
		if time.Sleep(3 * time.Hour); lines(t, store) != 0 {
			t.Fatal("the line was not deleted")
		}
		if token := join(t, s, "line").Node().Token; token <= last {
			t.Errorf("token %d after %d", token, last)
		}
	})
}

// One register that the sweeper may not touch, such as another user's file, does not keep it from the others.
func TestTheSweeperGoesOnWhenOneThingIsDenied(t *testing.T) {
	for _, denied := range []string{"session/", "line/"} {
		t.Run(denied, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewStore()
				var key atomic.Value
				d, _ := open(t, &meddled{Store: store, swap: func(w register.Swap, do func() (register.Item, error)) (register.Item, error) {
					if w.Key == key.Load() {
						return register.Item{}, driver.ErrDenied
					}
					return do()
				}})
				defer shut(t, d)
				time.Sleep(time.Minute) // so that it is the sweeper
				for i := range 20 {
					other, s := open(t, store)
					p := join(t, s, "line"+string(rune('a'+i)))
					if i == 7 {
						id, _, _ := strings.Cut(p.Node().ID, "-")
						key.Store(map[string]string{"session/": "session/" + id, "line/": "line/lineh"}[denied])
					}
					s.Abandon(t.Context())
					shut(t, other)
				}
				time.Sleep(10 * time.Minute)
				if all, err := d.Lines(t.Context(), "line"); err != nil || len(all) > 1 {
					t.Errorf("dead nodes stand in %v, %v", all, err)
				}
			})
		})
	}
}

// Whoever can write to one line says there that nearly all tokens are used up, and waits until the line is deleted.
func TestWhoWritesToOneLineUsesUpNoTokensOfOthers(t *testing.T) {
	for name, far := range map[string]uint64{"all there are": 1<<64 - 1, "all of ours": 1<<55 - 1, "nearly all": 1<<54 + 7} {
		for _, field := range []string{"next", "seq"} {
			t.Run(name+", "+field, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := memory.NewStore()
					d, s := open(t, store)
					defer shut(t, d)
					leave(t, join(t, s, "his"))
					it, err := store.Read(t.Context(), "line/his")
					if err != nil {
						t.Fatal(err)
					}
					value := slices.Clone(it.Value[:2])
					rest := it.Value[2:]
					for _, f := range []string{"next", "seq"} {
						n, size := binary.Uvarint(rest)
						if rest = rest[size:]; f == field {
							n = far
							if f == "seq" && far < 1<<64-1 {
								n = far << 8
							}
						}
						value = binary.AppendUvarint(value, n)
					}
					value = append(value, rest...)
					if _, err := store.Swap(t.Context(), register.Swap{Key: it.Key, Old: it.Version, Next: register.NewVersion(), Value: value}); err != nil {
						t.Fatal(err)
					}
					time.Sleep(3 * time.Hour)
					p, _, err := s.Join(t.Context(), driver.Entry{Line: "ours", Kind: rules.Lock})
					if err != nil {
						t.Fatal(err)
					}
					if p.Node().Token > 1<<40 {
						t.Errorf("it has token %d", p.Node().Token)
					}
					leave(t, p)
				})
			})
		}
	}
}
