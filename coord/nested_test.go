package coord_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/verify/bubble"
)

// within returns a hold nested in the one that ctx descends from.
func within(t *testing.T, c *coord.Client, ctx context.Context, kind string) *coord.Hold {
	t.Helper()
	h, err := c.Acquire(ctx, "line", kind, nil, exclusive, coord.Reentrant())
	require.NoError(t, err)
	return h
}

// Nothing else gets to run between the end of a hold and the questions that follow it.
func TestWhatIsNestedEndsWithTheHoldAroundItAtOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		for range 100 {
			outer := enter(t, c)
			middle := within(t, c, outer.Context(), "lock")
			inner := within(t, c, middle.Context(), "lock")
			with, cancel := inner.With(t.Context())
			require.NoError(t, outer.Release())
			for _, h := range []*coord.Hold{middle, inner} {
				require.ErrorIs(t, h.Err(), coord.ErrLost)
				require.ErrorIs(t, context.Cause(h.Context()), coord.ErrLost)
				require.ErrorIs(t, h.Release(), coord.ErrLost)
			}
			require.ErrorIs(t, context.Cause(with), coord.ErrLost)
			cancel()
		}
	})
}

func TestWhatIsNestedIsLostWithTheHoldAroundIt(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var out silent
		m := &meddler{deadline: out.deadline}
		c := m.client(s)
		outer := enter(t, c)
		released, inner := within(t, c, outer.Context(), "lock"), within(t, c, outer.Context(), "lock")
		require.NoError(t, released.Release())
		out.Store(true) // and no timer has run yet
		assert.ErrorIs(t, inner.Err(), coord.ErrLost)
		assert.Equal(t, outer.Err(), inner.Err())
		assert.Equal(t, coord.ErrReleased, released.Err(), "its own end stays what it is")
		assert.ErrorIs(t, outer.Release(), coord.ErrLost)
	})
}

// A context of a nested hold that has been released is still one inside the outer hold.
func TestLockingAfterANestedHoldIsLockingInsideTheOuterOne(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		outer := enter(t, c)
		inner := within(t, c, outer.Context(), "lock")
		detached := context.WithoutCancel(inner.Context())
		require.NoError(t, inner.Release())
		_, err := on(c, coord.MaxWait(time.Minute))(detached)
		assert.ErrorIs(t, err, coord.ErrHeld, "it would wait for itself")
		require.NoError(t, outer.Release())
	})
}

func TestNestedHoldsAndContextsLeaveNothingAtTheOuterOne(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		outer := enter(t, c)
		inUse := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := inUse()
		for range 10_000 {
			inner := within(t, c, outer.Context(), "lock")
			_, cancel := inner.With(t.Context())
			cancel()
			require.NoError(t, inner.Release())
		}
		assert.Less(t, int64(inUse())-int64(before), int64(1<<20))
		require.NoError(t, outer.Release())
	})
}

func TestANestedHoldThatAsksForMoreThanTheOuterOneBecomesIsLost(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		outer, err := c.Acquire(t.Context(), "line", "W", nil, exclusive)
		require.NoError(t, err)
		reads := within(t, c, outer.Context(), "R")
		writes := within(t, c, reads.Context(), "W") // the outermost one writes
		require.NoError(t, outer.Amend(t.Context(), "R", nil))
		assert.ErrorIs(t, writes.Err(), coord.ErrLost)
		assert.ErrorIs(t, context.Cause(writes.Context()), coord.ErrLost)
		assert.ErrorContains(t, writes.Release(), "the hold around it was downgraded")
		assert.NoError(t, reads.Err())
		_, err = c.Acquire(reads.Context(), "line", "W", nil, exclusive, coord.Reentrant())
		assert.ErrorIs(t, err, coord.ErrUpgrade)
		require.NoError(t, reads.Release())
		require.NoError(t, outer.Release())
	})
}

// Who locks twice without the hold's context waits for himself: the error says so.
func TestWhoWaitsForHimselfIsTold(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		const hint = "this process itself has it; within a hold, lock with the hold's context"
		h, err := c.Acquire(t.Context(), "a", "lock", nil, exclusive)
		require.NoError(t, err)
		_, err = c.TryAcquire(t.Context(), "a", "lock", nil, exclusive)
		require.ErrorIs(t, err, coord.ErrBusy)
		assert.ErrorContains(t, err, hint)
		_, err = c.Acquire(t.Context(), "a", "lock", nil, exclusive, coord.MaxWait(time.Second))
		require.ErrorIs(t, err, coord.ErrBusy)
		assert.ErrorContains(t, err, hint)
		_, err = s.Client().TryAcquire(t.Context(), "a", "lock", nil, exclusive)
		assert.ErrorContains(t, err, hint, "another client of this process")
		require.NoError(t, h.Release())
	})
}

// Whoever holds hundreds of lines and asks for hundreds more is asked about each of them.
func TestWhetherALineIsHeldTakesNoList(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		h := enter(t, c)
		ctx := h.Context()
		for range 6 {
			var cancel context.CancelFunc
			ctx, cancel = h.With(ctx)
			defer cancel()
		}
		assert.Equal(t, h, c.Held(ctx, "line"))
		assert.Equal(t, []*coord.Hold{h}, c.Holds(ctx))
		list := testing.AllocsPerRun(100, func() { c.Holds(ctx) })
		assert.Less(t, testing.AllocsPerRun(100, func() { c.Held(ctx, "line") }), list)
		require.NoError(t, h.Release())
	})
}

// Some recipes have room for several holders, of which the caller may be more than one. Within a hold that shuts out all others it
// would wait for itself, whatever it asks for.
func TestWithinAHoldThatShutsOutAllNobodyJoinsAnew(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		ask := func(held, asked string) error {
			outer, err := c.Acquire(t.Context(), "line", held, nil, coord.RuleOf(held))
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(outer.Context(), time.Hour)
			defer cancel()
			began := time.Now()
			h, err := c.Acquire(ctx, "line", asked, nil, coord.RuleOf(asked), coord.Anew())
			require.Zero(t, time.Since(began), "%s within %s", asked, held)
			if err == nil {
				require.NoError(t, h.Release())
			}
			require.NoError(t, outer.Release())
			return err
		}
		for _, held := range []string{rules.Lock, rules.Writer, rules.Lead} {
			for _, asked := range []string{rules.Reader, "S1of3"} {
				require.ErrorIs(t, ask(held, asked), coord.ErrHeld)
			}
		}
		require.NoError(t, ask(rules.Reader, rules.Reader))
		require.NoError(t, ask("S1of3", "S2of3"))
	})
}
