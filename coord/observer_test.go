package coord_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/bubble"
)

// moments has an observer note when things happened, by the clock of the test.
func moments(of map[string]time.Time) coord.Option {
	note := func(what string) func(time.Time, coord.Node) {
		return func(at time.Time, me coord.Node) { of[what+" "+me.Kind] = at }
	}
	return coord.WithObserver(&coord.Observer{
		SessionOpened: func(at time.Time) { of["opened"] = at },
		SessionEnded:  func(at time.Time, _ error) { of["ended"] = at },
		Waiting:       func(at time.Time, me coord.Node, _ int) { note("waiting")(at, me) },
		Granted:       func(at time.Time, me coord.Node, _ time.Duration) { note("granted")(at, me) },
		Amended:       note("amended"),
		Released:      func(at time.Time, me coord.Node, _ time.Duration) { note("released")(at, me) },
		Lost:          func(at time.Time, me coord.Node, _ error) { note("lost")(at, me) },
	})
}

func TestAnObserverIsToldWhenThingsHappened(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		began := time.Now()
		after := func(n int) time.Time { return began.Add(time.Duration(n) * time.Second) }
		told := map[string]time.Time{}
		other := enter(t, s.Client())
		late := coord.WithObserver(&coord.Observer{Waiting: func(time.Time, coord.Node, int) { time.Sleep(time.Minute) }})
		c := s.Client(late, moments(told))
		turn := coord.Chan(t.Context(), on(c))
		time.Sleep(time.Second)
		require.NoError(t, other.Release())
		synctest.Wait()
		h := (<-turn).Hold
		time.Sleep(time.Second)
		require.NoError(t, h.Amend(t.Context(), "R", nil))
		require.NoError(t, h.Amend(t.Context(), "R", []byte("no other kind")))
		time.Sleep(time.Second)
		require.NoError(t, h.Release())
		time.Sleep(time.Hour) // for the slow hook
		synctest.Wait()
		assert.Equal(t, map[string]time.Time{"opened": began, "waiting lock": began, "granted lock": after(1), "amended R": after(2),
			"released R": after(3)}, told)
	})
}

// The service takes the node away, and its answer comes late: meanwhile the next one has its turn.
func TestAReleaseIsToldBeforeTheGrantThatItMakesRoomFor(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var told diary
		m := &meddler{leave: func(_ context.Context, _ bool, do func() error) error {
			defer time.Sleep(time.Second)
			return do()
		}}
		c := m.client(s, told.option())
		h := enter(t, c)
		turn := queue(t, c)
		told.read()
		go h.Release()
		next := bubble.Enters(t, turn)
		told.write("the next one has it")
		time.Sleep(time.Minute)
		lines := told.read()
		require.Len(t, lines, 4, "%v", lines)
		assert.Contains(t, lines[0], "released after 0s", "%v", lines)
		assert.Contains(t, lines[2], "granted", "%v", lines)
		assert.Equal(t, "the next one has it", lines[3])
		require.NoError(t, next.Release())
	})
}

func TestALostHoldWasHeldUntilItsDeadline(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		told := map[string]time.Time{}
		c := s.Client(moments(told))
		h := enter(t, c)
		s.Partition(c)
		until := h.Deadline()
		<-h.Context().Done()
		synctest.Wait()
		assert.Equal(t, until, told["lost lock"])
		h.Release()
		time.Sleep(time.Minute)
	})
}

// Whatever has ended the session may have let the next one in before we heard of it.
func TestAHoldThatIsLostWithItsSessionWasHeldWhenThatWasLastSeenAlive(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		told := map[string]time.Time{}
		c := s.Client(moments(told))
		h := enter(t, c)
		time.Sleep(time.Hour)
		ended := time.Now()
		s.Expire(c)
		<-h.Context().Done()
		synctest.Wait()
		at := told["lost lock"]
		assert.True(t, at.Before(ended), "%v, and it was over by %v", at, ended)
		assert.Less(t, ended.Sub(at), time.Minute)
		assert.True(t, told["ended"].Equal(ended))
	})
}

func TestOfNestedHoldsNothingIsTold(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var told diary
		c := s.Client(told.option())
		h := enter(t, c)
		inner := within(t, c, h.Context(), "lock")
		require.NoError(t, h.Release())
		assert.ErrorIs(t, inner.Err(), coord.ErrLost)
		inner.Release()
		lines := told.read()
		require.Len(t, lines, 3, "%v", lines)
		assert.Contains(t, lines[2], "released")
	})
}

func TestCloseWaitsAMomentForWhatIsYetToBeTold(t *testing.T) {
	for range 100 {
		s := mem.New()
		told := 0
		c := s.Client(coord.WithObserver(&coord.Observer{Released: func(time.Time, coord.Node, time.Duration) { told++ }}))
		h, err := c.Acquire(t.Context(), "line", "lock", nil, exclusive)
		require.NoError(t, err)
		require.NoError(t, h.Release())
		require.NoError(t, c.Close())
		require.Equal(t, 1, told)
		s.Close()
	}
}

func TestAHookMayCloseTheClient(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		closed := make(chan error, 1)
		var c *coord.Client
		c = s.Client(coord.WithObserver(&coord.Observer{Released: func(time.Time, coord.Node, time.Duration) { closed <- c.Close() }}))
		require.NoError(t, enter(t, c).Release())
		began := time.Now()
		assert.NoError(t, <-closed)
		assert.Less(t, time.Since(began), 2*time.Second)
	})
}

// Who is told first closes the client while the others are still to be told. Its node is not left to the TTL.
func TestAHookThatClosesTheClientFindsNothingHeld(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var c *coord.Client
		closed := make(chan error, 1)
		observers := []coord.Option{coord.WithObserver(&coord.Observer{Released: func(time.Time, coord.Node, time.Duration) { closed <- c.Close() }})}
		for range 10_000 {
			observers = append(observers, coord.WithObserver(&coord.Observer{Released: func(time.Time, coord.Node, time.Duration) {}}))
		}
		c = s.Client(observers...)
		require.NoError(t, enter(t, c).Release())
		require.NoError(t, <-closed)
	})
}

// The end of a session has a reason, and that a client was closed in good order is none.
func TestTheEndOfASessionHasAReason(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var told, losses []error
		open := func() *coord.Client {
			return s.Client(coord.WithObserver(&coord.Observer{
				SessionEnded: func(_ time.Time, why error) { told = append(told, why) },
				Lost:         func(_ time.Time, _ coord.Node, why error) { losses = append(losses, why) },
			}))
		}
		c := open()
		h, err := c.Acquire(t.Context(), "a", "lock", nil, exclusive)
		require.NoError(t, err)
		require.NoError(t, h.Release())
		require.NoError(t, c.Close())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, told, 1)
		assert.NoError(t, told[0], "a clean Close is no loss")
		assert.Empty(t, losses)

		told = nil
		c = open()
		h, err = c.Acquire(t.Context(), "a", "lock", nil, exclusive)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, told, 1)
		assert.ErrorIs(t, told[0], coord.ErrClosed)
		require.Len(t, losses, 1, "what was held is held no more")
		assert.Equal(t, h.Err(), losses[0])
		h.Release()
		time.Sleep(time.Minute) // until its node has gone

		told = nil
		c = open()
		h, err = c.Acquire(t.Context(), "b", "lock", nil, exclusive)
		require.NoError(t, err)
		require.NoError(t, h.Release())
		s.Expire(c)
		h, err = c.Acquire(t.Context(), "b", "lock", nil, exclusive)
		require.NoError(t, err)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, told, 1)
		assert.ErrorContains(t, told[0], "session ended: ")
		assert.Len(t, losses, 1, "nothing was held")
		require.NoError(t, h.Release())
		require.NoError(t, c.Close())
	})
}

// Each call that was told to wait is told to have its turn, to have lost its place, or to have given up: so who counts waiters can.
func TestAnObserverIsToldWhoGivesUp(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		h := enter(t, s.Client())
		var waiting, gaveUp []coord.Token
		c := s.Client(coord.WithObserver(&coord.Observer{
			Waiting: func(_ time.Time, me coord.Node, _ int) { waiting = append(waiting, me.Token) },
			GaveUp: func(_ time.Time, me coord.Node, waited time.Duration, err error) {
				gaveUp = append(gaveUp, me.Token)
				assert.Equal(t, time.Minute, waited)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			},
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r := <-coord.Chan(ctx, on(c))
		require.ErrorIs(t, r.Err, context.DeadlineExceeded)
		require.NoError(t, h.Release())
		require.NoError(t, enter(t, c).Release())
		synctest.Wait()
		assert.Len(t, waiting, 1)
		assert.Equal(t, waiting, gaveUp)
	})
}

// It has lost its place, and there is no other: it is told all the same that it has ended without its turn.
func TestAnObserverIsToldWhoGivesUpAfterItHasLostItsPlace(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		h := enter(t, s.Client())
		var waiting, lost, gaveUp []coord.Token
		opened := 0
		m := &meddler{open: func(ctx context.Context, do opens) (driver.Session, error) {
			if opened++; opened > 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return do(ctx)
		}}
		c := m.client(s, coord.WithObserver(&coord.Observer{
			Waiting:   func(_ time.Time, me coord.Node, _ int) { waiting = append(waiting, me.Token) },
			Rejoining: func(_ time.Time, me coord.Node) { lost = append(lost, me.Token) },
			GaveUp: func(_ time.Time, me coord.Node, waited time.Duration, err error) {
				gaveUp = append(gaveUp, me.Token)
				assert.Equal(t, time.Hour, waited)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorIs(t, err, coord.ErrUnavailable)
			},
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		turn := coord.Chan(ctx, on(c))
		time.Sleep(time.Minute)
		s.Expire(m.under)
		require.ErrorIs(t, (<-turn).Err, context.DeadlineExceeded)
		require.NoError(t, h.Release())
		synctest.Wait()
		assert.Len(t, waiting, 1)
		assert.Equal(t, waiting, lost)
		assert.Equal(t, waiting, gaveUp)
	})
}

// The session ends as the turn is given.
func TestALossIsToldAfterTheGrant(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var told diary
		c := s.Client(told.option())
		read := coord.RuleOf(rules.Reader)
		first, err := c.Acquire(t.Context(), "line", rules.Reader, nil, read)
		require.NoError(t, err)
		told.read()
		looks := 0
		rule := read
		rule.WaitFor = func(me coord.Node, ahead []coord.Node) []coord.Node {
			if looks++; looks == 2 { // beside the other hold of the client
				s.Expire(c)
				time.Sleep(time.Second)
			}
			return read.WaitFor(me, ahead)
		}
		second, err := c.Acquire(t.Context(), "line", rules.Reader, nil, rule)
		require.NoError(t, err)
		require.ErrorIs(t, second.Err(), coord.ErrLost)
		var of []string
		for _, event := range told.read() {
			if name, what, is := strings.Cut(event, fmt.Sprintf("line %d ", second.Token())); is {
				of = append(of, name+strings.Fields(what)[0])
			}
		}
		assert.Equal(t, []string{"granted", "lost:"}, of)
		assert.Error(t, first.Release())
		assert.Error(t, second.Release())
	})
}

type callerKey struct{}

// each notes what is told of a call whose context has a name, and of all calls.
func each(notes *[]string) *coord.Observer {
	of := func(who string) *coord.Observer {
		note := func(what string) { *notes = append(*notes, who+" "+what) }
		return &coord.Observer{
			Waiting:   func(time.Time, coord.Node, int) { note("waiting") },
			Woken:     func(time.Time, coord.Node) { note("woken") },
			Rejoining: func(time.Time, coord.Node) { note("rejoining") },
			GaveUp:    func(time.Time, coord.Node, time.Duration, error) { note("gave up") },
			Granted:   func(time.Time, coord.Node, time.Duration) { note("granted") },
			Amended:   func(time.Time, coord.Node) { note("amended") },
			Released:  func(time.Time, coord.Node, time.Duration) { note("released") },
			Lost:      func(time.Time, coord.Node, error) { note("lost") },
		}
	}
	all := of("all")
	all.Acquiring = func(ctx context.Context) *coord.Observer {
		if who, ok := ctx.Value(callerKey{}).(string); ok {
			return of(who)
		}
		return nil
	}
	return all
}

func as(t *testing.T, who string) context.Context {
	return context.WithValue(t.Context(), callerKey{}, who)
}

func TestACallHasAnObserverOfItsOwn(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var notes []string
		read := func(want ...string) {
			t.Helper()
			synctest.Wait()
			assert.Equal(t, want, notes)
			notes = nil
		}
		c := s.Client(coord.WithObserver(each(&notes)))
		other := enter(t, c)
		read("all granted")
		turn := coord.Chan(as(t, "I"), on(c))
		read("I waiting", "all waiting")
		s.Expire(c)
		assert.Error(t, other.Release())
		h := (<-turn).Hold
		read("all lost", "I rejoining", "all rejoining", "I granted", "all granted")
		require.NoError(t, h.Amend(t.Context(), "R", nil))
		read("I amended", "all amended")

		ctx, cancel := context.WithCancel(as(t, "you"))
		turn = coord.Chan(ctx, on(c))
		read("you waiting", "all waiting")
		cancel()
		require.Error(t, (<-turn).Err)
		read("you gave up", "all gave up")
		turn = coord.Chan(as(t, "she"), on(c))
		synctest.Wait()
		require.NoError(t, h.Release())
		h = (<-turn).Hold
		synctest.Wait()
		read("she waiting", "all waiting", "I released", "all released", "she woken", "all woken", "she granted", "all granted")
		s.Remove(h.Node())
		<-h.Context().Done()
		read("she lost", "all lost")
		h, err := c.TryAcquire(as(t, "he"), "line", "lock", nil, exclusive)
		require.NoError(t, err)
		require.NoError(t, h.Release())
		read("he granted", "all granted", "he released", "all released")
	})
}

func TestOfASharedNodeACallHearsOfItsOwnTurn(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var notes []string
		other := enter(t, s.Client())
		c := s.Client(coord.WithObserver(each(&notes)))
		var turns []<-chan coord.Result
		for _, who := range []string{"I", "you"} {
			turns = append(turns, coord.Chan(as(t, who), on(c, coord.Together(time.Second))))
			synctest.Wait()
		}
		require.NoError(t, other.Release())
		for _, turn := range turns {
			require.NoError(t, bubble.Enters(t, turn).Release())
		}
		synctest.Wait()
		assert.Equal(t, []string{"all waiting", "all woken", "I granted", "all granted", "I released", "all released",
			"you granted", "all granted", "you released", "all released"}, notes)
		time.Sleep(time.Minute)
	})
}

// The hook is called where the call is made, before it has come to anything; of what is no turn of its own it is not called.
func TestAcquiringIsCalledByTheCaller(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		calls := 0
		c := s.Client(coord.WithObserver(&coord.Observer{Acquiring: func(context.Context) *coord.Observer { calls++; return nil }}))
		s.Partition(c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := c.Acquire(ctx, "line", "lock", nil, exclusive)
		require.ErrorIs(t, err, coord.ErrUnavailable)
		assert.Equal(t, 1, calls)
	})
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		calls := 0
		c := s.Client(coord.WithObserver(&coord.Observer{Acquiring: func(context.Context) *coord.Observer { calls++; return nil }}))
		h := enter(t, c)
		assert.Equal(t, 1, calls)
		require.NoError(t, within(t, c, h.Context(), "lock").Release())
		_, err := c.Acquire(h.Context(), "line", "lock", nil, exclusive)
		require.ErrorIs(t, err, coord.ErrHeld)
		require.NoError(t, h.Release())
		assert.Equal(t, 1, calls)
		h = (<-coord.Chan(t.Context(), on(c, coord.Together(time.Second)))).Hold
		assert.Equal(t, 2, calls, "once, and not again for the node")
		require.NoError(t, h.Release())
		time.Sleep(time.Minute)
	})
}

// Whoever has no such hook pays nothing for it.
func TestAHoldThatNobodyObservesAllocatesNoMore(t *testing.T) {
	of := [][]coord.Option{nil, {coord.WithObserver(&coord.Observer{})},
		{coord.WithObserver(&coord.Observer{Acquiring: func(context.Context) *coord.Observer { return nil }})}}
	costs := make([][]float64, len(of))
	for range 11 { // what others do meanwhile is counted as well
		for i, opts := range of {
			costs[i] = append(costs[i], allocated(t, opts...))
		}
	}
	var usual []float64
	for _, some := range costs {
		slices.Sort(some)
		usual = append(usual, some[len(some)/2])
	}
	assert.InDelta(t, usual[0], usual[1], 0.5)
	assert.InDelta(t, usual[0], usual[2], 0.5)
}

// allocated is how many objects a turn allocates on the average.
func allocated(t *testing.T, opts ...coord.Option) float64 {
	const turns = 500
	s := mem.New()
	defer s.Close()
	c := s.Client(opts...)
	var before, after runtime.MemStats
	for i := range turns + 1 {
		if i == 1 { // there is a session
			runtime.ReadMemStats(&before)
		}
		h, err := c.Acquire(t.Context(), "line", "lock", nil, exclusive)
		require.NoError(t, err)
		require.NoError(t, h.Release())
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / turns
}

// What a log or a trace says is complete when Close has returned.
func TestTheEndOfTheSessionIsToldBeforeCloseReturns(t *testing.T) {
	for range 2000 {
		var ended atomic.Bool
		s := mem.New()
		c := s.Client(coord.WithObserver(&coord.Observer{SessionEnded: func(time.Time, error) { ended.Store(true) }}))
		if _, err := c.Line(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		h, err := mutex.New(c, "orders").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h.Release()
		c.Close()
		if !ended.Load() {
			t.Fatal("nobody was told that the session has ended")
		}
		s.Close()
	}
}

var panics = flag.Bool("panics", false, "have a hook panic, in a process of its own")

// A hook is the user's code. What is wrong there must not go unseen.
func TestAHookThatPanicsEndsTheProgramWithItsStack(t *testing.T) {
	if *panics {
		c := mem.New().Client(coord.WithObserver(&coord.Observer{Granted: func(time.Time, coord.Node, time.Duration) { panic("oh no") }}))
		_, _ = mutex.New(c, "line").Lock(t.Context())
		time.Sleep(time.Minute)
		return
	}
	out, err := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-panics").CombinedOutput()
	assert.Error(t, err, "it goes on")
	assert.Contains(t, string(out), "panic: oh no")
	assert.Contains(t, string(out), "observer_test.go", "no stack says where")
}

// A test's hook may call t.FailNow. What is told after that is told all the same.
func TestAHookThatEndsItsGoroutineKeepsNobodyFromTheRest(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var released atomic.Int32
		c := s.Client(
			coord.WithObserver(&coord.Observer{Granted: func(time.Time, coord.Node, time.Duration) { runtime.Goexit() }}),
			coord.WithObserver(&coord.Observer{Released: func(time.Time, coord.Node, time.Duration) { released.Add(1) }}))
		for range 3 {
			h, err := mutex.New(c, "line").Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, h.Release())
		}
		began := time.Now()
		require.NoError(t, c.Close())
		assert.EqualValues(t, 3, released.Load())
		assert.Zero(t, time.Since(began), "Close has waited for what nobody tells")
	})
}

// One Observer that is given to two clients has one for each, so that it may remember what it was told.
func TestAnObserverHasOneOfItsOwnForEachClient(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var told [3]int
		clients := 0
		o := &coord.Observer{
			SessionOpened: func(time.Time) { t.Error("it is told in place of that for the client") },
			ForClient: func() *coord.Observer {
				if clients++; clients == len(told) {
					return nil
				}
				mine := clients
				return &coord.Observer{Granted: func(time.Time, coord.Node, time.Duration) { told[mine]++ }}
			},
		}
		for range told {
			c := s.Client(coord.WithObserver(o))
			h, err := mutex.New(c, "line").Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, h.Release())
			require.NoError(t, c.Close())
		}
		assert.Equal(t, [3]int{0, 1, 1}, told)
	})
}
