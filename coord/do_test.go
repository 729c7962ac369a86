package coord_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

func TestAResultThatIsReceivedIsTheReceivers(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, cancel := context.WithCancel(t.Context())
		results := coord.Chan(ctx, on(s.Client()))
		r := <-results
		require.NoError(t, r.Err)
		cancel()
		_, more := <-results
		assert.False(t, more, "one result, and no more")
		time.Sleep(time.Second)
		assert.NoError(t, r.Hold.Err(), "ctx governed the wait")
		require.NoError(t, r.Hold.Release())
	})
}

func TestAResultThatNobodyReceivesIsTakenBack(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*mem.Service, *coord.Client, context.CancelFunc)
		want error
	}{
		"ctx ends":         {func(_ *mem.Service, _ *coord.Client, cancel context.CancelFunc) { cancel() }, context.Canceled},
		"the hold is lost": {func(s *mem.Service, c *coord.Client, _ context.CancelFunc) { s.Expire(c) }, coord.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *mem.Service) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				client := s.Client()
				results := coord.Chan(ctx, on(client))
				synctest.Wait()
				behind := queue(t, s.Client())
				ended := time.Now()
				c.end(s, client, cancel)
				require.NoError(t, bubble.Enters(t, behind).Release())
				r := <-results
				assert.Zero(t, time.Since(ended), "nobody waits for a release that is confirmed")
				assert.Nil(t, r.Hold)
				assert.ErrorIs(t, r.Err, c.want)
				assert.IsType(t, (*coord.Error)(nil), r.Err)
				_, more := <-results
				assert.False(t, more)
			})
		})
	}
}

func TestTheErrorIsDeliveredThoughTheServiceDoesNotConfirmTheRelease(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		ctx, cancel := context.WithCancel(t.Context())
		results := coord.Chan(ctx, on(c))
		synctest.Wait()
		heal := s.Partition(c)
		began := time.Now()
		cancel()
		time.Sleep(100 * time.Millisecond)
		r := <-results
		assert.ErrorIs(t, r.Err, context.Canceled)
		assert.Equal(t, 100*time.Millisecond, time.Since(began))
		heal()
		time.Sleep(time.Second)
		_, more := <-results
		assert.False(t, more)
	})
}

func TestAnErrorIsDeliveredToo(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		holder := enter(t, s.Client())
		results := coord.Chan(t.Context(), on(s.Client(), coord.MaxWait(time.Second)))
		r := <-results
		assert.ErrorIs(t, r.Err, coord.ErrBusy)
		_, more := <-results
		assert.False(t, more)
		require.NoError(t, holder.Release())
	})
}

// What acquires may call t.FailNow, which ends its goroutine. Who receives must not take that for a hold.
func TestAChanWhoseFunctionDoesNotReturnDeliversAnError(t *testing.T) {
	results := coord.Chan(t.Context(), func(context.Context) (*coord.Hold, error) {
		runtime.Goexit()
		return nil, nil
	})
	r, delivered := <-results
	require.True(t, delivered)
	assert.Nil(t, r.Hold)
	require.ErrorIs(t, r.Err, coord.ErrInvalid)
	_, more := <-results
	assert.False(t, more)
}
