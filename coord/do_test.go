package coord_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/verify/bubble"
)

// on is the simplest call of Acquire, for Do and Chan.
func on(c *coord.Client, opts ...coord.AcquireOption) func(context.Context) (*coord.Hold, error) {
	return func(ctx context.Context) (*coord.Hold, error) {
		return c.Acquire(ctx, "line", "lock", nil, exclusive, opts...)
	}
}

func TestDoTellsWhatWentWrong(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		lose := func(ctx context.Context) {
			s.Expire(c)
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), coord.ErrLost)
		}
		err := coord.Do(t.Context(), on(c), func(context.Context, *coord.Hold) error { return nil })
		assert.NoError(t, err)

		err = coord.Do(t.Context(), on(c), func(context.Context, *coord.Hold) error { return io.EOF })
		assert.True(t, err == io.EOF, "fn's error as it is, not %#v", err)

		err = coord.Do(t.Context(), on(c), func(ctx context.Context, _ *coord.Hold) error {
			lose(ctx)
			return nil
		})
		assert.ErrorIs(t, err, coord.ErrLost)
		assert.IsType(t, (*coord.Error)(nil), err, "Release's error as it is")

		err = coord.Do(t.Context(), on(c), func(ctx context.Context, _ *coord.Hold) error {
			lose(ctx)
			return io.EOF
		})
		assert.ErrorIs(t, err, coord.ErrLost)
		assert.ErrorIs(t, err, io.EOF)
	})
}

func TestDoDoesNothingWithoutATurn(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c, own := s.Client(), errors.New("no turn")
		refuse := func(context.Context) (*coord.Hold, error) { return nil, own }
		err := coord.Do(t.Context(), refuse, func(context.Context, *coord.Hold) error {
			t.Error("it ran")
			return nil
		})
		assert.True(t, err == own)
		assert.EqualError(t, coord.Do(t.Context(), on(c), nil), "turnwise: do: invalid argument: the function is nil")
		assert.Empty(t, lineOf(t, s, "line"))
	})
}

func TestAPanicInDoReleases(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		assert.PanicsWithValue(t, "oops", func() {
			coord.Do(t.Context(), on(c), func(context.Context, *coord.Hold) error { panic("oops") })
		})
		assert.Empty(t, lineOf(t, s, "line"))
	})
}
