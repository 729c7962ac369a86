package multi_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/multi"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/recipes/semaphore"
	"github.com/turnwise/turnwise/verify/bubble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func lock(t *testing.T, c *coord.Client, opts ...multi.Option) *multi.Hold {
	t.Helper()
	h, err := multi.New(c, opts...).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Err())
	return h
}

// standing returns how many nodes a line has.
func standing(t *testing.T, s *mem.Service, line string) int {
	t.Helper()
	nodes, err := s.Client().Line(t.Context(), line)
	require.NoError(t, err)
	return len(nodes)
}

func TestAllIsHeldAtOnceAndGivenBackAtOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		h := lock(t, c, multi.Permits("pool", 3, 2), multi.Read("b"), multi.Write("a"), multi.Mutex("c"))
		for _, line := range []string{"a", "b", "c", "pool"} {
			assert.NotZero(t, h.Token(line))
			assert.Equal(t, h.Hold(line), c.Held(h.Context(), line))
		}
		assert.Zero(t, h.Token("d"))
		assert.Nil(t, h.Hold("d"))
		assert.False(t, h.Deadline().IsZero())

		other := s.Client()
		_, err := mutex.New(other, "c").TryLock(t.Context())
		assert.ErrorIs(t, err, coord.ErrBusy)
		_, err = rwlock.New(other, "a").TryRLock(t.Context())
		assert.ErrorIs(t, err, coord.ErrBusy)
		_, err = semaphore.New(other, "pool", 3).TryAcquire(t.Context(), 2)
		assert.ErrorIs(t, err, coord.ErrBusy)
		reads, err := rwlock.New(other, "b").TryRLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, reads.Release())

		require.NoError(t, h.Release())
		assert.ErrorIs(t, h.Err(), coord.ErrReleased)
		assert.ErrorIs(t, context.Cause(h.Context()), coord.ErrReleased)
		assert.True(t, h.Deadline().IsZero())
		require.NoError(t, h.Release(), "once more")
	})
}

// Whoever waits keeps nobody out of the lines that come later.
func TestItWaitsInTheFirstBusyLineAndStandsInNoneAfterIt(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		busy, err := mutex.New(s.Client(), "b").Lock(t.Context())
		require.NoError(t, err)
		c := s.Client()
		got := multi.New(c, multi.Mutex("d"), multi.Mutex("c"), multi.Mutex("b"), multi.Mutex("a")).LockChan(t.Context())
		synctest.Wait()
		assert.Equal(t, 1, standing(t, s, "a"))
		assert.Equal(t, 2, standing(t, s, "b"))
		assert.Equal(t, 0, standing(t, s, "c"))
		d, err := mutex.New(s.Client(), "d").TryLock(t.Context())
		require.NoError(t, err, "it keeps d, and waits for b")

		require.NoError(t, busy.Release())
		synctest.Wait()
		assert.Equal(t, 1, standing(t, s, "c"))
		assert.Empty(t, got, "it has come through without d")
		require.NoError(t, d.Release())
		r := <-got
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Release())
	})
}

// Two philosophers who took one fork after the other, each the left one first, would starve.
func TestPhilosophersDoNotStarve(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		const seats = 5
		var eating [seats]bool
		var all sync.WaitGroup
		for i := range seats {
			c := s.Client()
			all.Go(func() {
				left, right := i, (i+1)%seats
				for range 50 {
					err := multi.New(c, multi.Mutex(fmt.Sprint("fork", left)), multi.Mutex(fmt.Sprint("fork", right))).
						Do(ctx, func(ctx context.Context, h *multi.Hold) error {
							assert.False(t, eating[(i+seats-1)%seats] || eating[right], "a neighbour eats")
							eating[i] = true
							time.Sleep(rand.N(5 * time.Millisecond))
							eating[i] = false
							return nil
						})
					assert.NoError(t, err)
				}
			})
		}
		all.Wait()
	})
}

// crowd counts who is inside each line.
type crowd [6]struct{ readers, writers atomic.Int64 }

func (c *crowd) enter(t *testing.T, read, write []int) {
	for _, x := range write {
		assert.EqualValues(t, 1, c[x].writers.Add(1), "somebody else writes")
		assert.Zero(t, c[x].readers.Load(), "somebody reads")
	}
	for _, x := range read {
		c[x].readers.Add(1)
		assert.Zero(t, c[x].writers.Load(), "somebody writes")
	}
}

func (c *crowd) leave(read, write []int) {
	for _, x := range write {
		c[x].writers.Add(-1)
	}
	for _, x := range read {
		c[x].readers.Add(-1)
	}
}

// once takes some of the lines, or gives up, or does not wait at all.
func (c *crowd) once(t *testing.T, client *coord.Client, rand *rand.Rand) {
	var opts []multi.Option
	var read, write []int
	for _, x := range rand.Perm(len(c))[:1+rand.IntN(4)] {
		if rand.IntN(2) == 0 {
			read, opts = append(read, x), append(opts, multi.Read(fmt.Sprint(x)))
		} else {
			write, opts = append(write, x), append(opts, multi.Write(fmt.Sprint(x)))
		}
	}
	if rand.IntN(4) == 0 {
		opts = append(opts, multi.MaxWait(time.Duration(rand.IntN(10))*time.Millisecond))
	}
	m := multi.New(client, opts...)
	take := m.Lock
	if rand.IntN(4) == 0 {
		take = m.TryLock
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	h, err := take(ctx)
	if err != nil {
		assert.ErrorIs(t, err, coord.ErrBusy)
		assert.NoError(t, ctx.Err(), "it would wait for ever")
		return
	}
	c.enter(t, read, write)
	time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond)
	c.leave(read, write)
	assert.NoError(t, h.Release())
}

func TestManyWithAnySets(t *testing.T) {
	for seed := range uint64(20) {
		bubble.Run(t, func(t *testing.T, s *mem.Service) {
			var inside crowd
			dice := rand.New(rand.NewPCG(seed, 0))
			var all sync.WaitGroup
			for range 8 {
				c, rand := s.Client(), rand.New(rand.NewPCG(dice.Uint64(), 0))
				all.Go(func() {
					for range 30 {
						inside.once(t, c, rand)
					}
				})
			}
			all.Wait()
		})
	}
}

func TestATryLeavesNothing(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		busy, err := mutex.New(s.Client(), "b").Lock(t.Context())
		require.NoError(t, err)
		c := s.Client()
		m := multi.New(c, multi.Mutex("a"), multi.Mutex("b"), multi.Mutex("c"))
		_, err = m.TryLock(t.Context())
		require.ErrorIs(t, err, coord.ErrBusy)
		var e *coord.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, "b", e.Line)
		assert.Equal(t, busy.Node().ID, e.Blocker.ID)
		time.Sleep(time.Second) // a join that was broken off is taken back in the background
		for _, line := range []string{"a", "c"} {
			assert.Equal(t, 0, standing(t, s, line))
		}
		assert.Equal(t, 1, standing(t, s, "b"))

		_, err = multi.New(c, multi.Mutex("a"), multi.Mutex("b"), multi.MaxWait(0)).Lock(t.Context())
		assert.ErrorIs(t, err, coord.ErrBusy)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, busy.Release())
		h, err := m.TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Release())
	})
}

func TestWhoeverGivesUpLeavesNothing(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		busy, err := mutex.New(s.Client(), "b").Lock(t.Context())
		require.NoError(t, err)
		c := s.Client()
		began := time.Now()
		_, err = multi.New(c, multi.Mutex("a"), multi.Mutex("b"), multi.MaxWait(time.Second)).Lock(t.Context())
		assert.ErrorIs(t, err, coord.ErrBusy)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(began))

		ctx, cancel := context.WithCancelCause(t.Context())
		got := multi.New(c, multi.Mutex("a"), multi.Mutex("b"), multi.Mutex("c")).LockChan(ctx)
		synctest.Wait()
		enough := errors.New("enough")
		cancel(enough)
		r := <-got
		assert.ErrorIs(t, r.Err, context.Canceled)
		assert.ErrorIs(t, r.Err, enough)
		assert.Equal(t, 0, standing(t, s, "a"))
		require.NoError(t, busy.Release())
	})
}

// It says what was in the way: somebody, or the service.
func TestWhoeverHasNoTimeHearsWhatWasInTheWay(t *testing.T) {
	s := mem.New()
	defer s.Close()
	_, err := multi.New(s.Client(), multi.Mutex("a"), multi.MaxWait(1)).Lock(t.Context())
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorIs(t, err, coord.ErrUnavailable)

	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		busy, err := mutex.New(s.Client(), "a").Lock(t.Context())
		require.NoError(t, err)
		c := s.Client()
		got := multi.New(c, multi.Mutex("a"), multi.Mutex("b"), multi.MaxWait(time.Minute)).LockChan(t.Context())
		synctest.Wait()
		heal := s.Partition(c)
		err = (<-got).Err
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, coord.ErrUnavailable, "it waited in the first line and had none")
		assert.NotErrorIs(t, err, coord.ErrBusy)
		heal()
		require.NoError(t, busy.Release())
		time.Sleep(time.Minute)
	})

	failed := 0
	for range 20 {
		bubble.Run(t, func(t *testing.T, s *mem.Service) {
			var c *coord.Client
			var once sync.Once // the session ends when it has one of the lines, and not yet the last one
			c = s.Client(coord.WithObserver(&coord.Observer{Granted: func(time.Time, coord.Node, time.Duration) { once.Do(func() { s.Expire(c) }) }}))
			opts := []multi.Option{multi.MaxWait(0)}
			for i := range 50 {
				opts = append(opts, multi.Mutex(fmt.Sprint(i)))
			}
			h, err := multi.New(c, opts...).Lock(t.Context())
			if err == nil {
				_ = h.Release()
			}
			time.Sleep(time.Minute) // what the session leaves behind is swept
			if err == nil {
				return
			}
			failed++
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.True(t, errors.Is(err, coord.ErrUnavailable) || errors.Is(err, coord.ErrBusy), "%v", err)
		})
	}
	assert.NotZero(t, failed)
}

func TestAHoldThatNobodyReceivesIsGivenBack(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, cancel := context.WithCancel(t.Context())
		got := multi.New(s.Client(), multi.Mutex("a"), multi.Mutex("b")).LockChan(ctx)
		synctest.Wait()
		assert.Equal(t, 1, standing(t, s, "b"))
		cancel()
		synctest.Wait()
		r := <-got
		assert.ErrorIs(t, r.Err, context.Canceled)
		assert.Nil(t, r.Hold)
	})
}

func TestTheHoldEndsWithTheFirstOfItsLines(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		h := lock(t, s.Client(), multi.Mutex("a"), multi.Mutex("b"))
		ctx, cancel := h.With(t.Context())
		defer cancel()
		require.True(t, s.Remove(h.Hold("b").Node()))
		time.Sleep(time.Minute)
		assert.ErrorIs(t, context.Cause(ctx), coord.ErrLost)
		assert.ErrorIs(t, h.Err(), coord.ErrLost)
		assert.NoError(t, h.Hold("a").Err(), "the others stay until Release")
		err := h.Release()
		assert.ErrorIs(t, err, coord.ErrLost)
		assert.ErrorContains(t, err, `"b"`)
	})
}

// What it held while it waited is lost with the session; it must not come through with the rest alone.
func TestItBeginsAgainWhenTheSessionIsLost(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		busy, err := mutex.New(s.Client(), "b").Lock(t.Context())
		require.NoError(t, err)
		c := s.Client()
		got := multi.New(c, multi.Mutex("a"), multi.Mutex("b"), multi.Mutex("c")).LockChan(t.Context())
		synctest.Wait()
		s.Expire(c)
		time.Sleep(time.Second)
		assert.Equal(t, 1, standing(t, s, "a"), "it stands there again")
		require.NoError(t, busy.Release())
		r := <-got
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Err())
		require.NoError(t, r.Hold.Release())
	})
}

func TestAnOperatorEndsItsWait(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		busy, err := mutex.New(s.Client(), "b").Lock(t.Context())
		require.NoError(t, err)
		got := multi.New(s.Client(), multi.Mutex("a"), multi.Mutex("b")).LockChan(t.Context())
		synctest.Wait()
		breakLast := func(line string) {
			nodes, err := s.Client().Line(t.Context(), line)
			require.NoError(t, err)
			require.NoError(t, s.Client().Break(t.Context(), nodes[len(nodes)-1]))
			time.Sleep(time.Second)
		}
		breakLast("a") // which it has: it stands there again, behind whoever has come meanwhile
		assert.Equal(t, 1, standing(t, s, "a"))
		assert.Empty(t, got)
		breakLast("b") // for which it waits
		r := <-got
		assert.ErrorIs(t, r.Err, coord.ErrRemoved)
		assert.ErrorContains(t, r.Err, `"b"`)
		assert.Equal(t, 0, standing(t, s, "a"))
		require.NoError(t, busy.Release())
	})
}

func TestItEndsWithItsClient(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		busy, err := mutex.New(s.Client(), "b").Lock(t.Context())
		require.NoError(t, err)
		c := s.Client()
		got := multi.New(c, multi.Mutex("a"), multi.Mutex("b")).LockChan(t.Context())
		synctest.Wait()
		c.Close()
		assert.ErrorIs(t, (<-got).Err, coord.ErrClosed)
		require.NoError(t, busy.Release())
		time.Sleep(time.Minute) // the session of who was closed with a hold runs out
	})
}

func TestOneNameThatNoLineCanHaveAndNobodyIsDisturbed(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var granted atomic.Int64
		c := s.Client(coord.WithObserver(&coord.Observer{Granted: func(time.Time, coord.Node, time.Duration) { granted.Add(1) }}))
		opts := []multi.Option{multi.Mutex("/z")}
		for i := range 20 {
			opts = append(opts, multi.Mutex(fmt.Sprint(i)))
		}
		_, err := multi.New(c, opts...).TryLock(t.Context())
		_, plain := mutex.New(c, "/z").TryLock(t.Context())
		assert.ErrorIs(t, err, coord.ErrInvalidName)
		assert.EqualError(t, err, plain.Error())
		synctest.Wait()
		assert.Zero(t, granted.Load())
	})
}

func TestWhatCannotBeTakenIsRefusedAtOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		refused := func(ctx context.Context, want error, text string, opts ...multi.Option) {
			t.Helper()
			h, err := multi.New(c, opts...).Lock(ctx)
			if err == nil {
				h.Release()
			}
			assert.ErrorIs(t, err, want)
			assert.ErrorContains(t, err, text)
		}
		ctx := t.Context()
		refused(ctx, coord.ErrInvalid, "no locks")
		refused(ctx, coord.ErrInvalid, "no locks", nil, multi.MaxWait(time.Second))
		refused(ctx, coord.ErrInvalid, `"a": invalid argument: it is asked for twice`, multi.Write("a"), multi.Read("b"), multi.Read("a"))
		refused(ctx, coord.ErrInvalid, "only 2", multi.Permits("a", 2, 3))
		refused(ctx, coord.ErrInvalid, "0 permits", multi.Permits("a", 2, 0))
		refused(ctx, coord.ErrInvalidName, "", multi.Mutex(""), multi.Mutex("b"))
		assert.ErrorIs(t, multi.New(c, multi.Mutex("a")).Do(ctx, nil), coord.ErrInvalid)

		h := lock(t, c, multi.Mutex("m"), multi.Permits("pool", 8, 2))
		refused(h.Context(), coord.ErrHeld, `"m"`, multi.Mutex("m"), multi.Mutex("z"))
		refused(h.Context(), coord.ErrInvalid, `the caller holds "pool"`, multi.Mutex("n"))
		refused(h.Context(), coord.ErrInvalid, `the caller holds "pool", which does not come before it`, multi.Permits("pool", 8, 2))
		later := lock(t, c, multi.Mutex("q"))
		require.NoError(t, later.Release())
		for _, opts := range [][]multi.Option{{multi.Mutex("q"), multi.Mutex("r")}, {multi.Mutex("n"), multi.Unordered()}, {multi.Permits("pool", 8, 2), multi.Unordered()}} {
			inner, err := multi.New(c, opts...).Lock(h.Context())
			require.NoError(t, err)
			require.NoError(t, inner.Release())
		}
		inner, err := multi.New(c, multi.Mutex("n")).TryLock(h.Context())
		require.NoError(t, err, "a try waits for nobody")
		require.NoError(t, inner.Release())
		require.NoError(t, h.Release())
	})
}
