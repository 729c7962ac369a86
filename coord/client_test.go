package coord_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/verify/bubble"
)

func TestOptionsThatAreNilChangeNothing(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client(nil, coord.WithOwnerLabel("billing"), coord.WithObserver(nil), nil)
		h, err := c.Acquire(t.Context(), "line", "lock", nil, exclusive, nil, coord.Anew(), nil)
		require.NoError(t, err)
		assert.Equal(t, "billing", h.Node().Owner.Label)
		require.NoError(t, h.Release())
	})
}

// Others see as much of a label as the client itself says of it.
func TestALongLabelIsCutOffForAllAlike(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client(coord.WithOwnerLabel("x" + strings.Repeat("é", driver.MaxLabel)))
		h, err := c.Acquire(t.Context(), "line", "lock", nil, exclusive)
		require.NoError(t, err)
		assert.Equal(t, "x"+strings.Repeat("é", driver.MaxLabel/2-1), h.Node().Owner.Label)
		line, err := s.Client().Line(t.Context(), "line")
		require.NoError(t, err)
		assert.Equal(t, h.Node().Owner.Label, line[0].Owner.Label)
		require.NoError(t, h.Release())
	})
}

func TestAClientNeedsADriver(t *testing.T) {
	assert.PanicsWithValue(t, "turnwise: NewClient needs a driver, and got nil", func() { coord.NewClient(nil) })
}

func TestARequestTimeoutBoundsWhatWaitsForTheServiceAlone(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		plain := s.Client()
		drivers := plain.Driver().RequestTimeout()
		for _, c := range []struct {
			client *coord.Client
			limit  time.Duration
		}{
			{plain, drivers},
			{s.Client(coord.WithRequestTimeout(0)), drivers},
			{s.Client(coord.WithRequestTimeout(-time.Second)), drivers},
			{s.Client(coord.WithRequestTimeout(drivers / 10)), drivers / 10},
			{s.Client(coord.WithRequestTimeout(3 * drivers)), 3 * drivers},
		} {
			h, err := c.client.Acquire(t.Context(), "line", "lock", nil, exclusive)
			require.NoError(t, err)
			heal := s.Partition(c.client)
			for op, call := range map[string]func() error{
				"try": func() error {
					_, err := c.client.TryAcquire(t.Context(), "other", "lock", nil, exclusive)
					return err
				},
				"line": func() error {
					_, err := c.client.Line(t.Context(), "line")
					return err
				},
				"first": func() error {
					_, err := c.client.First(t.Context(), "line")
					return err
				},
				"lines": func() error {
					_, err := c.client.Lines(t.Context(), "")
					return err
				},
				"memo": func() error {
					_, err := c.client.Memo(t.Context(), "line")
					return err
				},
				"forget":  func() error { return c.client.Forget(t.Context(), "line") },
				"break":   func() error { return c.client.Break(t.Context(), h.Node()) },
				"release": func() error { h.Release(); return coord.ErrUnavailable }, // it was held until this call
			} {
				began := time.Now()
				err := call()
				assert.ErrorIs(t, err, coord.ErrUnavailable, op)
				// The caller's own time is not up, and nothing may say so.
				assert.NotContains(t, err.Error(), context.DeadlineExceeded.Error(), op)
				assert.LessOrEqual(t, time.Since(began), c.limit, op)
				least := c.limit * 9 / 10 // a driver may keep a little for itself
				if op == "first" || op == "break" {
					least = min(least, drivers*9/10) // this one sends them once only
				}
				assert.GreaterOrEqual(t, time.Since(began), least, op)
			}
			heal()
			time.Sleep(time.Minute)
		}
	})
}

func TestShutdownWaitsForTheHoldsAndTurnsTheWaitersAway(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		a, waiter := enter(t, c), queue(t, c)
		b, err := c.Acquire(t.Context(), "other", "lock", nil, exclusive)
		require.NoError(t, err)
		second, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = c.Shutdown(second)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.EqualError(t, err, "turnwise: shutdown: context deadline exceeded: 2 holds not released")
		assert.ErrorIs(t, (<-waiter).Err, coord.ErrClosed)
		_, err = on(c)(t.Context())
		assert.ErrorIs(t, err, coord.ErrClosed)
		_, err = c.First(t.Context(), "line")
		assert.ErrorIs(t, err, coord.ErrClosed)

		done := make(chan error, 1)
		go func() { done <- c.Shutdown(t.Context()) }()
		time.Sleep(time.Minute)
		assert.NoError(t, a.Err(), "the holds go on")
		require.NoError(t, a.Release())
		assert.NoError(t, b.Err())
		synctest.Wait()
		assert.Empty(t, done, "one is left")
		require.NoError(t, b.Release())
		assert.NoError(t, <-done)
		assert.NoError(t, c.Shutdown(t.Context()))
		assert.NoError(t, c.Close())
	})
}

func TestShutdownDoesNotWaitForHoldsThatAreLost(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		h := enter(t, c)
		done := make(chan error, 1)
		go func() { done <- c.Shutdown(t.Context()) }()
		synctest.Wait()
		s.Expire(c)
		assert.NoError(t, <-done)
		assert.ErrorIs(t, h.Release(), coord.ErrLost)
	})
}

func TestAClientThatDidNothingIsShutDownAtOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		assert.NoError(t, s.Client().Shutdown(t.Context()))
		assert.NoError(t, s.Client().Close())
	})
}

func TestCloseLetsTheNextOneInUnlessWorkStillRuns(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		working := enter(t, c)
		require.NoError(t, c.Close())
		assert.ErrorIs(t, working.Err(), coord.ErrClosed)
		behind := queue(t, s.Client()) // the work may still run
		began := time.Now()
		r := <-behind
		require.NoError(t, r.Err)
		assert.Greater(t, time.Since(began), 5*time.Second, "the session was ended under running work")
		assert.ErrorIs(t, working.Release(), coord.ErrLost)
		assert.NoError(t, c.Close(), "a second time")

		c = s.Client()
		behind = queue(t, c)
		require.NoError(t, r.Hold.Release())
		require.NoError(t, bubble.Enters(t, behind).Release())
		require.NoError(t, c.Close())
		enter(t, s.Client()).Release()
	})
}

func TestACloseThatFailsSaysSo(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		own := errors.New("disk full")
		m := &meddler{close: func(do func() error) error {
			do()
			return own
		}}
		err := m.client(s).Close()
		assert.ErrorIs(t, err, own)
		assert.EqualError(t, err, "turnwise: close: disk full")

		c := s.Client()
		enter(t, c).Release()
		heal := s.Partition(c)
		began := time.Now()
		err = c.Close()
		assert.ErrorIs(t, err, coord.ErrUnavailable)
		assert.LessOrEqual(t, time.Since(began), c.Driver().RequestTimeout())
		heal()
	})
}

// Only the nodes that somebody may still work under are left to the TTL.
func TestCloseBesideRunningWorkTakesTheWaitersAway(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		working, err := c.Acquire(t.Context(), "other", "lock", nil, exclusive)
		require.NoError(t, err)
		ahead := enter(t, s.Client())
		waiter := queue(t, c)
		require.NoError(t, c.Close())
		assert.ErrorIs(t, (<-waiter).Err, coord.ErrClosed)
		assert.Len(t, lineOf(t, s, "line"), 1, "it stands there until the TTL")
		assert.Len(t, lineOf(t, s, "other"), 1)
		require.NoError(t, ahead.Release())
		enter(t, s.Client()).Release()
		assert.ErrorIs(t, working.Release(), coord.ErrLost)
		time.Sleep(20 * time.Second)
	})
}

func TestAShutdownWithoutTimeEndsTheSessionAllTheSame(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		m := &meddler{closeSession: func(ctx context.Context, do func() error) error {
			if ctx.Err() != nil {
				return ctx.Err() // it has no time to ask
			}
			return do()
		}}
		c := m.client(s)
		require.NoError(t, enter(t, c).Release())
		// A node without a hold goes only with the session.
		_, _, err := m.joined.Join(t.Context(), driver.Entry{Line: "line", Kind: "lock"})
		require.NoError(t, err)
		if err := c.Shutdown(ended); err != nil {
			assert.ErrorIs(t, err, context.Canceled)
		}
		require.NoError(t, c.Close())
		assert.Empty(t, lineOf(t, s, "line"))
	})
}

// A hold that goes on is of use only if its holder learns what it needs for its work, and that somebody asks for the line.
func TestWhatIsAskedOfAHoldIsAnsweredDuringShutdown(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		h := enter(t, c)
		require.NoError(t, h.SetMemo(t.Context(), []byte("before")))
		before := make(chan error, 1)
		go func() {
			_, err := h.Wanted(t.Context())
			before <- err
		}()
		done := make(chan error, 1)
		go func() { done <- c.Shutdown(t.Context()) }()
		synctest.Wait()

		memo, err := h.Memo(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "before", string(memo))
		require.NoError(t, h.SetMemo(t.Context(), []byte("after")))
		_, err = c.Memo(t.Context(), "line")
		assert.ErrorIs(t, err, coord.ErrClosed, "the client gives no more answers")

		asks := make(chan error, 1)
		go func() { asks <- s.Client().Ask(t.Context(), "line", "a new version") }()
		assert.NoError(t, <-before)
		n, err := h.Wanted(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "a new version", n.Asks)
		require.NoError(t, h.Release())
		assert.NoError(t, <-done)
		assert.NoError(t, <-asks)
		_, err = h.Memo(t.Context())
		assert.ErrorIs(t, err, coord.ErrClosed)
	})
}

func TestCloseEndsTheWaitOfAHolderWhoIsAskedNothing(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		h := enter(t, c)
		wanted := make(chan error, 1)
		go func() {
			_, err := h.Wanted(t.Context())
			wanted <- err
		}()
		synctest.Wait()
		require.NoError(t, c.Close())
		assert.ErrorIs(t, <-wanted, coord.ErrClosed)
		_ = h.Release()
		time.Sleep(time.Minute)
	})
}
