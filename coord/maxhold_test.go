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
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/verify/bubble"
)

func TestAHoldEndsByItselfAndTheNextOneEnters(t *testing.T) {
	for name, opts := range map[string][]coord.AcquireOption{
		"alone":    {coord.MaxHold(time.Minute)},
		"together": {coord.MaxHold(time.Minute), coord.Together(time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *mem.Service) {
				var told diary
				c := s.Client(told.option())
				h := enter(t, c, opts...)
				began := time.Now()
				deadline, ok := h.Context().Deadline()
				require.True(t, ok, "it is told beforehand")
				require.Equal(t, time.Minute, deadline.Sub(began))
				ctx, cancel := h.With(t.Context())
				defer cancel()
				next := coord.Chan(t.Context(), on(s.Client()))
				time.Sleep(time.Minute - 1)
				require.NoError(t, h.Err())
				require.False(t, h.Deadline().After(deadline))
				time.Sleep(time.Nanosecond)
				synctest.Wait() // others may be ending it at this moment
				require.ErrorIs(t, h.Err(), coord.ErrLost)
				require.ErrorIs(t, h.Err(), context.DeadlineExceeded)
				require.Equal(t, h.Err(), context.Cause(h.Context()))
				r := <-next
				require.NoError(t, r.Err)
				require.Error(t, ctx.Err())
				require.Less(t, time.Since(began), time.Minute+2*time.Second)
				require.ErrorIs(t, h.Release(), coord.ErrLost)
				require.ErrorIs(t, h.Release(), coord.ErrLost)
				require.NoError(t, r.Hold.Release())
				require.Contains(t, strings.Join(told.read(), "\n"), "lost: hold lost: it has lasted for as long as MaxHold allows")
			})
		})
	}
}

func TestAHoldThatIsReleasedInTimeNeverEndsByItself(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		h := enter(t, c, coord.MaxHold(time.Minute))
		time.Sleep(59 * time.Second)
		require.NoError(t, h.Release())
		other := enter(t, c)
		time.Sleep(time.Hour)
		require.NoError(t, other.Err())
		require.NoError(t, other.Release())
	})
}

// The nested hold ends, the one around it does not.
func TestANestedHoldEndsByItself(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		h := enter(t, c)
		inner, err := on(c, coord.Reentrant(), coord.MaxHold(time.Minute))(h.Context())
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		require.ErrorIs(t, inner.Err(), coord.ErrLost)
		require.NoError(t, h.Err())
		require.NoError(t, h.Release())
	})
}

func TestWorkIsToldThatItsHoldIsOver(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		err := coord.Do(t.Context(), on(s.Client(), coord.MaxHold(time.Minute)), func(ctx context.Context, _ *coord.Hold) error {
			deadline, ok := ctx.Deadline()
			assert.True(t, ok)
			assert.Equal(t, time.Minute, time.Until(deadline))
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, coord.ErrLost)
		for _, none := range []time.Duration{0, -1} {
			h := enter(t, s.Client(), coord.MaxHold(none))
			time.Sleep(time.Hour)
			require.NoError(t, h.Release())
		}
		h := enter(t, s.Client(), coord.MaxHold(1))
		time.Sleep(time.Second)
		require.True(t, errors.Is(h.Release(), coord.ErrLost))
	})
}
