package once_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/once"
	"github.com/turnwise/turnwise/verify/bubble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func nothing(context.Context, *coord.Hold) error { return nil }

func run(t *testing.T, j *once.Job, slot int64, fn func(context.Context, *coord.Hold) error) bool {
	t.Helper()
	ran, err := j.Do(t.Context(), slot, fn)
	require.NoError(t, err)
	return ran
}

func TestASlotIsRunOnceByOneOfMany(t *testing.T) {
	for _, policy := range []once.Policy{once.AtMostOnce, once.AtLeastOnce} {
		bubble.Run(t, func(t *testing.T, s *mem.Service) {
			var mu sync.Mutex
			runs := make(map[int64]int)
			var all sync.WaitGroup
			for range 5 {
				j := once.New(s.Client(), "job", policy)
				all.Go(func() {
					for slot := range int64(10) {
						time.Sleep(rand.N(time.Second))
						_, err := j.Do(t.Context(), slot, func(context.Context, *coord.Hold) error {
							time.Sleep(rand.N(time.Second)) // others come meanwhile, and wait
							mu.Lock()
							defer mu.Unlock()
							runs[slot]++
							return nil
						})
						assert.NoError(t, err)
					}
				})
			}
			all.Wait()
			for slot, n := range runs {
				assert.Equal(t, 1, n, "slot %d", slot)
			}
			last, err := once.New(s.Client(), "job", policy).Last(t.Context())
			require.NoError(t, err)
			assert.EqualValues(t, 9, last.Slot)
			assert.True(t, last.Done)
			assert.NotZero(t, last.Token)
			require.NoError(t, s.Client().Forget(t.Context(), "job"))
		})
	}
}

// Guards against go-co-op/gocron#841: tickers that are out of phase run a quick job several times in one interval, one after
// the other, each under the lock.
func TestTickersOutOfPhaseRunAJobOnceInASlot(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		const interval = 100 * time.Millisecond
		var mu sync.Mutex
		runs := make(map[int64]int)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for i := range 5 {
			j := once.New(s.Client(), "job", once.AtMostOnce)
			ahead := time.Duration(i-2) * 125 * time.Millisecond // its wall clock
			all.Go(func() {
				time.Sleep(time.Duration(i) * 23 * time.Millisecond)
				tick := time.NewTicker(interval)
				defer tick.Stop()
				for ctx.Err() == nil {
					slot := time.Now().Add(ahead).UnixNano() / int64(interval)
					_, _ = j.Do(ctx, slot, func(context.Context, *coord.Hold) error {
						mu.Lock()
						defer mu.Unlock()
						runs[slot]++
						return nil
					})
					<-tick.C
				}
			})
		}
		all.Wait()
		assert.Greater(t, len(runs), 20)
		for slot, n := range runs {
			assert.Equal(t, 1, n, "slot %d", slot)
		}
		require.NoError(t, s.Client().Forget(t.Context(), "job"))
	})
}

// dies runs a slot in a process that comes to an end in the middle.
func dies(t *testing.T, s *mem.Service, policy once.Policy, slot int64) {
	t.Helper()
	c := s.Client()
	inside := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err := once.New(c, "job", policy).Do(t.Context(), slot, func(ctx context.Context, _ *coord.Hold) error {
			close(inside)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		assert.ErrorIs(t, err, coord.ErrLost)
	}()
	<-inside
	s.Expire(c)
	<-ended
}

func TestASlotWhoseProcessDiesIsNotRunAgainIfAtMostOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		dies(t, s, once.AtMostOnce, 7)
		j := once.New(s.Client(), "job", once.AtMostOnce)
		assert.False(t, run(t, j, 7, nothing))
		assert.False(t, run(t, j, 6, nothing), "slots only grow")
		last, err := j.Last(t.Context())
		require.NoError(t, err)
		assert.False(t, last.Done, "it began, and nobody says that it ended")
		assert.True(t, run(t, j, 8, nothing))
		require.NoError(t, s.Client().Forget(t.Context(), "job"))
	})
}

func TestASlotWhoseProcessDiesIsRunAgainIfAtLeastOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		dies(t, s, once.AtLeastOnce, 7)
		j := once.New(s.Client(), "job", once.AtLeastOnce)
		broken := errors.New("broken")
		ran, err := j.Do(t.Context(), 7, func(context.Context, *coord.Hold) error { return broken })
		assert.True(t, ran)
		assert.ErrorIs(t, err, broken)
		assert.True(t, run(t, j, 7, nothing))
		assert.False(t, run(t, j, 7, nothing))
		require.NoError(t, s.Client().Forget(t.Context(), "job"))
	})
}

// Whoever has lost its turn cannot settle a slot, even if it does not know that yet.
func TestOneThatWasRemovedNotesNothing(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		j := once.New(s.Client(), "job", once.AtLeastOnce)
		_, err := j.Do(t.Context(), 7, func(ctx context.Context, h *coord.Hold) error {
			require.True(t, s.Remove(h.Node()))
			return nil
		})
		assert.ErrorIs(t, err, coord.ErrLost)
		last, err := j.Last(t.Context())
		require.NoError(t, err)
		assert.Zero(t, last)
	})
}

func TestItWaitsForWhoeverRunsTheJob(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		h, err := mutex.New(s.Client(), "job").Lock(t.Context())
		require.NoError(t, err)
		_, err = once.New(s.Client(), "job", once.AtMostOnce, once.MaxWait(time.Second), nil).Do(t.Context(), 1, nothing)
		assert.ErrorIs(t, err, coord.ErrBusy)
		done := make(chan bool, 1)
		go func() {
			ran, err := once.New(s.Client(), "job", once.AtMostOnce).Do(t.Context(), 1, nothing)
			done <- ran && err == nil
		}()
		synctest.Wait()
		assert.Empty(t, done)
		require.NoError(t, h.Release())
		assert.True(t, <-done)
		require.NoError(t, s.Client().Forget(t.Context(), "job"))
	})
}

func TestWhatIsNoJobIsRefused(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		for _, j := range []*once.Job{once.New(c, "job", 0), once.New(c, "job", 3)} {
			_, err := j.Do(t.Context(), 1, nothing)
			assert.ErrorIs(t, err, coord.ErrInvalid)
		}
		_, err := once.New(c, "job", once.AtMostOnce).Do(t.Context(), 1, nil)
		assert.ErrorIs(t, err, coord.ErrInvalid)
		h, err := mutex.New(c, "job").Lock(t.Context())
		require.NoError(t, err)
		for _, memo := range []string{"mine", "turnwise once 1 7 done 256 ", "turnwise once 1 7 gone 256", "turnwise once 2 7 done 256"} {
			require.NoError(t, h.SetMemo(t.Context(), []byte(memo)))
			_, err = once.New(c, "job", once.AtMostOnce).Last(t.Context())
			assert.ErrorIs(t, err, coord.ErrInvalid, memo)
		}
		require.NoError(t, h.SetMemo(t.Context(), nil))
		require.NoError(t, h.Release())
	})
}
