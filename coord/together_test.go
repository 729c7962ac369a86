package coord_test

import (
	"context"
	"runtime"
	"sync"
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
	"github.com/turnwise/turnwise/verify/bubble"
)

// Somebody's turn comes, and the deadline has passed by then. The client's next node is held, and nobody is inside.
func TestWhoMovesToANodeThatNobodyIsInHasItsTurn(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var passed atomic.Bool // the deadline, for whoever looks next
		m := &meddler{deadline: func(s driver.Session) time.Time {
			if passed.CompareAndSwap(true, false) {
				return time.Now()
			}
			return s.Deadline()
		}}
		c := m.client(s)
		writer, err := s.Client().Acquire(t.Context(), "line", rules.Writer, nil, coord.RuleOf(rules.Writer))
		require.NoError(t, err)
		read := coord.RuleOf(rules.Reader)
		asks := func(rule coord.Rule) <-chan coord.Result {
			defer synctest.Wait()
			return coord.Chan(t.Context(), func(ctx context.Context) (*coord.Hold, error) {
				return c.Acquire(ctx, "line", rules.Reader, nil, rule, coord.Together(time.Minute))
			})
		}
		slow, free := read, 0
		slow.WaitFor = func(me coord.Node, ahead []coord.Node) []coord.Node {
			wait := read.WaitFor(me, ahead)
			if len(wait) == 0 {
				free++
			}
			switch free {
			case 1: // its turn has come
				time.Sleep(time.Second)
			case 2: // it looks at the other node of the client
				passed.Store(true)
			}
			return wait
		}
		first := asks(slow)
		time.Sleep(time.Minute)
		second := asks(read)
		require.NoError(t, writer.Release())
		require.NoError(t, bubble.Enters(t, second).Release())
		bubble.Waits(t, first)
		time.Sleep(2 * time.Second)
		require.False(t, passed.Load())
		h := bubble.Enters(t, first)
		assert.NoError(t, h.Err())
		require.NoError(t, h.Release())
		time.Sleep(time.Minute)
	})
}

// guarded is a context whose values are guarded by a mutex.
type guarded struct {
	context.Context
	mu *sync.Mutex
}

func (g guarded) Value(key any) any {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.Context.Value(key)
}

// A context is the user's, and so is what its Value waits for: that keeps nobody else waiting.
func TestATurnIsGivenWithoutAskingTheContext(t *testing.T) {
	s := mem.New()
	defer s.Close()
	busy, err := on(s.Client())(t.Context())
	require.NoError(t, err)
	c := s.Client()
	var mu sync.Mutex
	turn := coord.Chan(guarded{t.Context(), &mu}, on(c, coord.Together(time.Minute)))
	require.Eventually(t, func() bool { return len(lineOf(t, s, "line")) == 2 }, time.Minute, time.Millisecond)
	mu.Lock()
	require.NoError(t, busy.Release())
	require.Eventually(t, func() bool { return len(lineOf(t, s, "line")) == 1 }, time.Minute, time.Millisecond)
	tried := make(chan error)
	go func() {
		_, err := c.TryAcquire(t.Context(), "line", rules.Lock, nil, coord.RuleOf(rules.Lock), coord.Together(time.Minute))
		tried <- err
	}()
	select {
	case err := <-tried:
		assert.ErrorIs(t, err, coord.ErrBusy)
	case <-time.After(10 * time.Second):
		assert.Fail(t, "somebody else waits for the context as well")
		go func() { <-tried }()
	}
	mu.Unlock()
	r := <-turn
	require.NoError(t, r.Err)
	require.NoError(t, r.Hold.Release())
}

// forgetful is a driver on a service that has forgotten who holds.
type forgetful struct{ driver.Driver }

func (*forgetful) Open(ctx context.Context) (driver.Session, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (*forgetful) Recovery() time.Duration { return time.Minute }

func TestWhoeverWaitsHearsWhyNobodyIsGrantedAnything(t *testing.T) {
	for name, opt := range map[string]coord.AcquireOption{"alone": nil, "together": coord.Together(time.Second)} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *mem.Service) {
				c := coord.NewClient(&forgetful{s.Client().Driver()})
				_, err := on(c, opt, coord.MaxWait(time.Second))(t.Context())
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorIs(t, err, coord.ErrBusy)
				assert.ErrorContains(t, err, "the service may have forgotten who holds")
				require.NoError(t, c.Close())
			})
		})
	}
}

// The session ends before its time, while somebody waits, and there is no other yet.
func TestWhoeverHasLostItsSessionHearsThatTheServiceIsAway(t *testing.T) {
	for name, opt := range map[string]coord.AcquireOption{"alone": nil, "together": coord.Together(time.Second)} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *mem.Service) {
				busy := enter(t, s.Client())
				opened := 0
				m := &meddler{open: func(ctx context.Context, do opens) (driver.Session, error) {
					if opened++; opened > 1 {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return do(ctx)
				}}
				turn := coord.Chan(t.Context(), on(m.client(s), opt, coord.MaxWait(time.Second)))
				bubble.Waits(t, turn)
				s.Expire(m.under)
				err := (<-turn).Err
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorIs(t, err, coord.ErrUnavailable)
				require.NoError(t, busy.Release())
			})
		})
	}
}

// The turn comes as the only one who waited for it gives up, and the service answers no more.
func TestWhoeverGivesUpWaitsForNoService(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, cancel := context.WithCancel(t.Context())
		m := &meddler{leave: func(ctx context.Context, _ bool, do func() error) error {
			time.Sleep(time.Second)
			return do()
		}}
		rule := exclusive
		rule.WaitFor = func(coord.Node, []coord.Node) []coord.Node {
			cancel()
			time.Sleep(time.Millisecond)
			return nil
		}
		began := time.Now()
		_, err := m.client(s).Acquire(ctx, "line", "lock", nil, rule, coord.Together(time.Minute))
		assert.ErrorIs(t, err, context.Canceled)
		assert.LessOrEqual(t, time.Since(began), 200*time.Millisecond)
		time.Sleep(time.Minute)
	})
}

// All who share a node give up just as its turn comes. Whoever counts those who wait would count it for ever.
func TestAWaitThatNobodyIsLeftOfIsToldToEnd(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		other := enter(t, s.Client())
		ctx, giveUp := context.WithCancel(t.Context())
		var comes atomic.Bool // the turn
		var told diary
		m := &meddler{deadline: func(s driver.Session) time.Time {
			if comes.CompareAndSwap(true, false) {
				giveUp()
				time.Sleep(time.Millisecond)
			}
			return s.Deadline()
		}}
		c := m.client(s, told.option())
		turn := coord.Chan(ctx, on(c, coord.Together(time.Hour)))
		synctest.Wait()
		comes.Store(true)
		require.NoError(t, other.Release())
		require.ErrorIs(t, (<-turn).Err, context.Canceled)
		synctest.Wait()
		lines := told.read()
		require.Len(t, lines, 4, "%v", lines)
		assert.Contains(t, lines[3], "gave up: context canceled")
	})
}

// Nobody else would tell those who wait for the node, and they would wait for ever.
func TestWhoWaitsForANodeHearsThatItsRuleHasEndedItsGoroutine(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		exits := coord.Rule{WaitFor: func(coord.Node, []coord.Node) []coord.Node {
			runtime.Goexit()
			return nil
		}}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				_, err := c.Acquire(ctx, "line", "lock", nil, exits, coord.Together(time.Second))
				assert.ErrorIs(t, err, coord.ErrInvalid)
			})
		}
		all.Wait()
		synctest.Wait()
		nodes, err := c.Line(ctx, "line")
		require.NoError(t, err)
		assert.Empty(t, nodes)
		h, err := c.Acquire(ctx, "line", "lock", nil, exclusive)
		require.NoError(t, err)
		require.NoError(t, h.Release())
	})
}
