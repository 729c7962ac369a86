package coord_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

type valueKey struct{}

func TestAHoldsContextHasTheCallersValuesButNotItsEnd(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		caller, cancel := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "tenant"))
		h, err := on(c)(caller)
		require.NoError(t, err)
		cancel()
		time.Sleep(time.Second)
		assert.NoError(t, h.Context().Err(), "ctx governs the wait, not the work")
		assert.NoError(t, h.Err())
		assert.Equal(t, "tenant", h.Context().Value(valueKey{}))
		assert.Same(t, h, c.Held(h.Context(), "line"))
		require.NoError(t, h.Release())
	})
}

func TestWhyAHoldEnded(t *testing.T) {
	for _, c := range []struct {
		name           string
		end            func(*mem.Service, *coord.Client, *coord.Hold)
		cause, release error
	}{
		{"released", func(_ *mem.Service, _ *coord.Client, h *coord.Hold) { h.Release() }, coord.ErrReleased, nil},
		{"closed", func(_ *mem.Service, c *coord.Client, _ *coord.Hold) { c.Close() }, coord.ErrClosed, coord.ErrLost},
		{"session ended", func(s *mem.Service, c *coord.Client, _ *coord.Hold) { s.Expire(c) }, coord.ErrLost, coord.ErrLost},
		{"removed", func(s *mem.Service, _ *coord.Client, h *coord.Hold) { s.Remove(h.Node()) }, coord.ErrLost, coord.ErrLost},
		{"not heard from", func(s *mem.Service, c *coord.Client, _ *coord.Hold) { s.Partition(c) }, coord.ErrLost, coord.ErrLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *mem.Service) {
				client := s.Client()
				h := enter(t, client)
				assert.True(t, h.Node().Holds)
				with, cancel := h.With(t.Context())
				defer cancel()
				c.end(s, client, h)
				<-h.Context().Done()
				assert.ErrorIs(t, context.Cause(h.Context()), c.cause)
				assert.ErrorIs(t, h.Err(), c.cause)
				<-with.Done()
				assert.ErrorIs(t, context.Cause(with), c.cause)
				assert.False(t, h.Node().Holds)
				assert.Zero(t, h.Deadline())
				assert.Nil(t, client.Held(h.Context(), "line"))
				for range 2 {
					err := h.Release()
					assert.ErrorIs(t, err, c.release)
					if err != nil {
						assert.EqualError(t, err, fmt.Sprintf(`turnwise: release "line": %v`, h.Err()))
					}
				}
				time.Sleep(20 * time.Second) // no session outlives that
			})
		})
	}
}

func TestWithEndsWithEither(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		h := enter(t, c)
		own := errors.New("the request is over")
		request, over := context.WithCancelCause(t.Context())
		with, cancel := h.With(request)
		defer cancel()
		assert.Same(t, h, c.Held(with, "line"))
		assert.Nil(t, c.Held(with, "other"))
		assert.Nil(t, s.Client().Held(with, "line"), "another client's")
		over(own)
		<-with.Done()
		assert.Equal(t, own, context.Cause(with))
		assert.NoError(t, h.Err(), "the hold goes on")

		with, cancel = h.With(t.Context())
		cancel()
		assert.Error(t, with.Err())
		assert.NoError(t, h.Err())
		require.NoError(t, h.Release())
	})
}

func TestADeadlineMovesOnWhileTheServiceIsHeard(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		h := enter(t, s.Client())
		first := h.Deadline()
		assert.Greater(t, time.Until(first), 5*time.Second)
		time.Sleep(time.Minute)
		assert.NoError(t, h.Err())
		assert.Greater(t, h.Deadline(), first)
		require.NoError(t, h.Release())
	})
}

func TestErrReadsTheClock(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var out silent
		m := &meddler{deadline: out.deadline}
		h := enter(t, m.client(s))
		out.Store(true) // and no timer has run yet
		assert.ErrorIs(t, h.Err(), coord.ErrLost)
		assert.Error(t, h.Context().Err(), "who asked the context only knows it now, too")
		assert.ErrorIs(t, h.Release(), coord.ErrLost)
	})
}

func TestALostHoldKeepsOthersOutUntilItsWorkIsDone(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var out silent
		m := &meddler{deadline: out.deadline}
		h := enter(t, m.client(s))
		behind := queue(t, s.Client())
		out.Store(true)
		<-h.Context().Done()
		time.Sleep(time.Minute)
		bubble.Waits(t, behind) // the session lives: its node stands
		out.Store(false)
		assert.ErrorIs(t, h.Err(), coord.ErrLost, "what was lost once stays lost")
		assert.ErrorIs(t, h.Release(), coord.ErrLost)
		bubble.Enters(t, behind).Release()
	})
}

func TestAReleaseLeavesOnceHoweverOftenItIsCalled(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var told diary
		var left atomic.Int32
		m := &meddler{leave: func(_ context.Context, _ bool, do func() error) error {
			left.Add(1)
			return do()
		}}
		h := enter(t, m.client(s, told.option()))
		behind := queue(t, s.Client())
		time.Sleep(3 * time.Second)
		told.read()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { assert.NoError(t, h.Release()) })
		}
		all.Wait()
		next := bubble.Enters(t, behind)
		assert.NoError(t, h.Release())
		assert.EqualValues(t, 1, left.Load())
		assert.Equal(t, []string{fmt.Sprintf("line %d released after 3s", h.Token())}, told.read())
		assert.NoError(t, next.Err())
		require.NoError(t, next.Release())
	})
}

// A release that the service does not answer counts all the same: the line was held until the call.
func TestAReleaseThatFailsIsTheDriversToRepeat(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var told diary
		m := &meddler{leave: func(ctx context.Context, _ bool, do func() error) error {
			time.AfterFunc(time.Minute, func() { do() })
			<-ctx.Done()
			return ctx.Err()
		}}
		c := m.client(s, told.option())
		h := enter(t, c)
		behind := queue(t, s.Client())
		told.read()
		began := time.Now()
		require.NoError(t, h.Release())
		assert.Equal(t, c.Driver().RequestTimeout(), time.Since(began))
		assert.Len(t, told.read(), 1, "released")
		bubble.Waits(t, behind)
		time.Sleep(time.Minute)
		bubble.Enters(t, behind).Release()
	})
}

// The waiter right behind enters on the news that a holder left, so only a holder with nobody at all ahead may say so.
func TestOnlyWhoHadNobodyAheadLeavesAsTheHolder(t *testing.T) {
	all := coord.Sight{Nearest: coord.All}
	none := func(coord.Node, []coord.Node) []coord.Node { return nil }
	shared := coord.Rule{Sight: all, WaitFor: none}
	for _, c := range []struct {
		name  string
		rule  coord.Rule
		ahead bool
		amend func(h *coord.Hold) error
		held  bool
	}{
		{name: "alone", rule: exclusive, held: true},
		{name: "somebody is ahead, in nobody's way", rule: shared, ahead: true},
		{name: "somebody may be ahead, out of sight", rule: coord.Rule{Sight: coord.Sight{Ignore: []string{"R"}}, WaitFor: none}},
		{name: "another value", rule: exclusive, held: true, amend: func(h *coord.Hold) error {
			return h.Amend(h.Context(), "lock", []byte("value"))
		}},
		{name: "another kind than was granted", rule: exclusive, amend: func(h *coord.Hold) error {
			return h.Amend(h.Context(), "R", nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *mem.Service) {
				var said []bool
				m := &meddler{leave: func(_ context.Context, held bool, do func() error) error {
					said = append(said, held)
					return do()
				}}
				client := m.client(s)
				if c.ahead {
					defer enter(t, s.Client()).Release()
				}
				h, err := client.Acquire(t.Context(), "line", "lock", nil, c.rule)
				require.NoError(t, err)
				if c.amend != nil {
					require.NoError(t, c.amend(h))
				}
				require.NoError(t, h.Release())
				assert.Equal(t, []bool{c.held}, said)
			})
		})
	}
}

func TestAnAmendmentShowsInTheHoldAndInTheLine(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		h, err := c.Acquire(t.Context(), "line", "W", []byte("old"), exclusive)
		require.NoError(t, err)
		token := h.Token()
		require.NoError(t, h.Amend(t.Context(), "R", []byte("new")))
		for name, n := range map[string]coord.Node{"hold": h.Node(), "line": lineOf(t, s, "line")[0]} {
			assert.Equal(t, "R", n.Kind, name)
			assert.Equal(t, "new", string(n.Data), name)
			assert.Equal(t, token, n.Token, name)
		}
		assert.NoError(t, h.Err())

		// A hold that is a reader now must not pass for a writer inside itself.
		_, err = c.Acquire(h.Context(), "line", "W", nil, exclusive, coord.Reentrant())
		assert.ErrorIs(t, err, coord.ErrUpgrade)
		inner, err := c.Acquire(h.Context(), "line", "R", nil, exclusive, coord.Reentrant())
		require.NoError(t, err)
		assert.ErrorIs(t, inner.Amend(t.Context(), "R", nil), coord.ErrInvalid, "the outer one's node")
		require.NoError(t, h.Release())
		synctest.Wait()
	})
}

func TestAnAmendmentThatFailsSaysSo(t *testing.T) {
	full := errors.New("disk full")
	for _, c := range []struct {
		name       string
		says, want error
		lost       bool
	}{
		{"refused", full, full, false},
		{"denied", driver.ErrDenied, coord.ErrDenied, false},
		{"no answer", context.DeadlineExceeded, coord.ErrUnavailable, false},
		{"removed", driver.ErrRemoved, coord.ErrLost, true},
		{"session ended", driver.ErrSessionEnded, coord.ErrLost, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *mem.Service) {
				m := &meddler{amend: func(context.Context, string, []byte, func() error) error { return c.says }}
				h := enter(t, m.client(s))
				err := h.Amend(t.Context(), "R", []byte("new"))
				assert.ErrorIs(t, err, c.want)
				var e *coord.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, "amend", e.Op)
				assert.Equal(t, !c.lost, errors.Is(err, coord.ErrUnsettled))
				assert.Equal(t, "R", h.Node().Kind, "others may have been let in")
				assert.Empty(t, h.Node().Data)
				assert.Equal(t, c.lost, h.Err() != nil)
				assert.Equal(t, c.lost, h.Context().Err() != nil)
				h.Release()
			})
		})
	}
}

func TestAnAmendmentIsRefusedThatCannotBe(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		m := &meddler{amend: func(context.Context, string, []byte, func() error) error {
			t.Error("the service was asked")
			return nil
		}}
		h := enter(t, m.client(s))
		assert.ErrorIs(t, h.Amend(t.Context(), "", nil), coord.ErrInvalid)
		assert.ErrorIs(t, h.Amend(t.Context(), "lock", make([]byte, coord.MaxData+1)), coord.ErrInvalid)
		assert.NoError(t, h.Err())
		require.NoError(t, h.Release())
		assert.ErrorIs(t, h.Amend(t.Context(), "lock", nil), coord.ErrReleased)
	})
}

func TestAHoldThatLastsHearsOfItsRemoval(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var watched atomic.Int32
		trouble := make(chan error, 2)
		m := &meddler{watch: func(_ context.Context, do func() error) error {
			watched.Add(1)
			select {
			case err := <-trouble:
				return err
			default:
				return do()
			}
		}}
		var told diary
		c := m.client(s, told.option())
		h := enter(t, c)
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, h.Release())
		time.Sleep(time.Second)
		assert.Zero(t, watched.Load(), "a watch over a hold that did not last")

		trouble <- errors.New("connection lost")
		trouble <- errors.New("connection lost again")
		h = enter(t, c)
		time.Sleep(time.Second)
		assert.EqualValues(t, 3, watched.Load(), "it watches again after trouble")
		require.NoError(t, h.Amend(t.Context(), "lock", []byte("new")))
		time.Sleep(time.Second)
		assert.EqualValues(t, 4, watched.Load(), "it watches again after an amendment")
		told.read()
		require.True(t, s.Remove(h.Node()))
		synctest.Wait()
		assert.ErrorIs(t, context.Cause(h.Context()), coord.ErrLost)
		assert.ErrorIs(t, context.Cause(h.Context()), coord.ErrRemoved)
		assert.Equal(t, []string{fmt.Sprintf("line %d lost: hold lost: the node was removed", h.Token())}, told.read())
		assert.ErrorIs(t, h.Release(), coord.ErrLost)
	})
}

func TestLockingInsideAHold(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		outer := enter(t, c)
		with, cancel := outer.With(t.Context())
		defer cancel()
		for _, ctx := range []context.Context{outer.Context(), with} {
			began := time.Now()
			_, err := on(c)(ctx)
			assert.ErrorIs(t, err, coord.ErrHeld)
			_, err = c.TryAcquire(ctx, "line", "lock", nil, exclusive)
			assert.ErrorIs(t, err, coord.ErrHeld)
			assert.Zero(t, time.Since(began))
		}
		inner, err := on(c, coord.Reentrant())(with)
		require.NoError(t, err)
		assert.Equal(t, outer.Token(), inner.Token())
		assert.Len(t, lineOf(t, s, "line"), 1)
		assert.Same(t, inner, c.Held(inner.Context(), "line"))
		require.NoError(t, inner.Release())
		assert.NoError(t, outer.Err(), "the outer one stays")
		assert.Len(t, lineOf(t, s, "line"), 1)

		inner, err = on(c, coord.Reentrant())(with)
		require.NoError(t, err)
		require.NoError(t, outer.Release())
		<-inner.Context().Done()
		assert.ErrorIs(t, context.Cause(inner.Context()), coord.ErrLost)
		assert.ErrorIs(t, inner.Release(), coord.ErrLost)
		assert.Empty(t, lineOf(t, s, "line"))

		outer = enter(t, c)
		inner, err = on(c, coord.Reentrant())(outer.Context())
		require.NoError(t, err)
		s.Expire(c)
		<-inner.Context().Done()
		assert.Equal(t, context.Cause(outer.Context()), context.Cause(inner.Context()))
		assert.ErrorIs(t, outer.Release(), coord.ErrLost)
	})
}

func TestAnewJoinsBesideTheCallersOwnHold(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		pass := coord.Rule{WaitFor: func(coord.Node, []coord.Node) []coord.Node { return nil }}
		a := enter(t, c)
		b, err := c.Acquire(a.Context(), "line", "lock", nil, pass, coord.Anew())
		require.NoError(t, err)
		assert.Greater(t, b.Token(), a.Token())
		require.NoError(t, a.Release())
		assert.NoError(t, b.Err())
		require.NoError(t, b.Release())
	})
}

// The rule fails as the hold is compared with another one of the client.
func TestOfARuleThatPanicsNoHoldIsLeft(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		read := coord.RuleOf(rules.Reader)
		first, err := c.Acquire(t.Context(), "line", rules.Reader, nil, read)
		require.NoError(t, err)
		looks := 0
		rule := read
		rule.WaitFor = func(me coord.Node, ahead []coord.Node) []coord.Node {
			if looks++; looks == 2 {
				panic("broken")
			}
			return read.WaitFor(me, ahead)
		}
		require.PanicsWithValue(t, "broken", func() { _, _ = c.Acquire(t.Context(), "line", rules.Reader, nil, rule) })
		time.Sleep(time.Second)
		require.Len(t, lineOf(t, s, "line"), 1)
		require.NoError(t, first.Release())
		require.Zero(t, c.Health().Holds)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, c.Shutdown(ctx))
	})
}

func TestEveryHookIsCalledWithTheNodeThatItIsAbout(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var told diary
		holder, c := s.Client(coord.WithNamespace("shop")), s.Client(coord.WithNamespace("shop"), told.option())
		ahead := enter(t, holder)
		turn := queue(t, c)
		n := lineOf(t, s, "shop/line")[1]
		assert.Equal(t, []string{"session opened", fmt.Sprintf("line %d waits for 1", n.Token)}, told.read())
		time.Sleep(5 * time.Second)
		require.NoError(t, ahead.Release())
		h := bubble.Enters(t, turn)
		assert.Equal(t, n.Token, h.Token())
		assert.Equal(t, []string{fmt.Sprintf("line %d woken", n.Token), fmt.Sprintf("line %d granted after 5s", n.Token)}, told.read())
		time.Sleep(3 * time.Second)
		require.NoError(t, h.Release())
		assert.Equal(t, []string{fmt.Sprintf("line %d released after 3s", n.Token)}, told.read())

		ahead = enter(t, holder)
		turn = queue(t, c)
		n = lineOf(t, s, "shop/line")[1]
		told.read()
		s.Expire(c)
		events := told.read()
		slices.Sort(events) // the session's keeper and the waiter are told independently
		again := lineOf(t, s, "shop/line")[1]
		assert.Equal(t, []string{fmt.Sprintf("line %d lost its place", n.Token), fmt.Sprintf("line %d waits for 1", again.Token),
			"session ended", "session opened"}, events)
		require.NoError(t, ahead.Release())
		require.NoError(t, bubble.Enters(t, turn).Release())
	})
}
