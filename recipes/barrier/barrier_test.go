package barrier_test

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
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/barrier"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/verify/bubble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	service := mem.New() // or zk.Connect, etcd.Connect
	defer service.Close()

	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			start := barrier.New(service.Client(), "start", 3)
			for range 2 {
				round, err := start.Wait(context.Background())
				fmt.Println(round, err)
			}
		})
	}
	all.Wait()
	// Output:
	// 1 <nil>
	// 1 <nil>
	// 1 <nil>
	// 2 <nil>
	// 2 <nil>
	// 2 <nil>
}

// gone is how a Wait has ended.
type gone struct {
	round uint64
	err   error
}

// comes has somebody wait at a barrier.
func comes(ctx context.Context, c *coord.Client, size int) <-chan gone {
	on := make(chan gone, 1)
	ctx, cancel := context.WithTimeout(ctx, 12*time.Hour) // so that one who waits in vain is noticed
	go func() {
		defer cancel()
		r, err := barrier.New(c, "start", size).Wait(ctx)
		on <- gone{r, err}
	}()
	synctest.Wait()
	return on
}

func stands(t *testing.T, s *mem.Service) int {
	t.Helper()
	all, err := s.Client().Line(t.Context(), "start")
	require.NoError(t, err)
	return len(all)
}

func TestNobodyGoesOnBeforeAllHaveCome(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		for round := range uint64(3) {
			a := comes(t.Context(), s.Client(), 3)
			b := comes(t.Context(), s.Client(), 3)
			time.Sleep(time.Hour)
			require.Empty(t, a)
			require.Empty(t, b)
			c := comes(t.Context(), s.Client(), 3)
			for _, on := range []<-chan gone{a, b, c} {
				require.Equal(t, gone{round + 1, nil}, <-on)
			}
			require.Zero(t, stands(t, s))
		}
	})
}

func TestOneTooManyWaitsForTheNextRound(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		hold, err := mutex.New(s.Client(), "start").Lock(t.Context()) // so that all are there when the first looks
		require.NoError(t, err)
		var on []<-chan gone
		for range 5 {
			on = append(on, comes(t.Context(), s.Client(), 2))
		}
		require.NoError(t, hold.Release())
		for i, round := range []uint64{1, 1, 2, 2} {
			require.Equal(t, gone{round, nil}, <-on[i], "in the order in which they came")
		}
		time.Sleep(time.Hour)
		require.Empty(t, on[4])
		require.Equal(t, gone{3, nil}, <-comes(t.Context(), s.Client(), 2))
		require.Equal(t, gone{3, nil}, <-on[4])
	})
}

func TestWhoDiesIsNotWaitedForAndDoesNotCount(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, cancel := context.WithCancel(t.Context())
		dying := s.Client()
		dead := comes(ctx, dying, 3)
		s.Partition(dying)
		cancel()
		<-dead
		time.Sleep(time.Minute)
		a := comes(t.Context(), s.Client(), 3)
		b := comes(t.Context(), s.Client(), 3)
		time.Sleep(time.Minute)
		require.Empty(t, a)
		c := comes(t.Context(), s.Client(), 3)
		for _, on := range []<-chan gone{a, b, c} {
			require.Equal(t, gone{1, nil}, <-on)
		}
	})
}

// The round has begun as soon as that is written down. Whoever wrote it may die before anybody is told.
func TestARoundThatHasBegunHasBegunForAll(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		first := s.Client()
		h, err := first.Acquire(t.Context(), "start", rules.Reader, []byte("barrier for 3"), coord.RuleOf(rules.Reader))
		require.NoError(t, err)
		a := comes(t.Context(), s.Client(), 3)
		b := comes(t.Context(), s.Client(), 4-1)
		all, err := first.Line(t.Context(), "start")
		require.NoError(t, err)
		require.Len(t, all, 2+1)
		require.NoError(t, h.SetMemo(t.Context(), fmt.Appendf(nil, "barrier: round 7 to %d", all[2].Token)))
		s.Expire(first)
		require.Equal(t, gone{7, nil}, <-a)
		require.Equal(t, gone{7, nil}, <-b)
		require.Error(t, h.Release())
	})
}

func TestWhoWasCutOffComesAgainUnlessItMayHaveBeenCounted(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		a := comes(t.Context(), s.Client(), 3)
		away := s.Client()
		b := comes(t.Context(), away, 3)
		heal := s.Partition(away)
		require.Equal(t, gone{1, nil}, <-comes(t.Context(), s.Client(), 3), "its session has not ended")
		require.Equal(t, gone{1, nil}, <-a)
		time.Sleep(time.Minute)
		heal()
		g := <-b
		require.ErrorIs(t, g.err, coord.ErrLost)
		require.ErrorContains(t, g.err, "may have counted")

		b = comes(t.Context(), away, 2)
		heal = s.Partition(away)
		time.Sleep(time.Minute)
		a = comes(t.Context(), s.Client(), 2)
		time.Sleep(time.Minute)
		require.Empty(t, a, "the other's session has ended")
		heal()
		require.Equal(t, gone{2, nil}, <-a)
		time.Sleep(time.Minute)
		want := gone{2, nil}
		if len(b) == 0 { // it came first in the session that had ended, and was counted there
			want = gone{3, nil}
			require.Equal(t, want, <-comes(t.Context(), s.Client(), 2))
		}
		require.Equal(t, want, <-b)
	})
}

func TestAllAreInsideAtTheSameTime(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var mu sync.Mutex
		inside := make(map[uint64]int)
		var all sync.WaitGroup
		for i := range 9 {
			all.Go(func() {
				b := barrier.New(s.Client(), "start", 3)
				in, err := b.Enter(t.Context())
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				inside[in.Round()]++
				mu.Unlock()
				time.Sleep(time.Duration(i+1) * time.Second)
				mu.Lock()
				assert.Len(t, inside, 1, "two rounds at a time")
				assert.Equal(t, 3, inside[in.Round()], "all have entered, and nobody has left")
				mu.Unlock()
				time.Sleep(time.Minute)
				mu.Lock()
				if inside[in.Round()]--; inside[in.Round()] == 0 {
					delete(inside, in.Round())
				}
				mu.Unlock()
				assert.NoError(t, in.Leave(t.Context()))
				mu.Lock()
				assert.Zero(t, inside[in.Round()], "it has left before all the others")
				mu.Unlock()
			})
		}
		all.Wait()
	})
}

func TestWhoDiesInsideIsLeftBehind(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		unlucky := s.Client()
		lost := make(chan error)
		go func() {
			lost <- barrier.New(unlucky, "start", 2).Do(t.Context(), func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			})
		}()
		in, err := barrier.New(s.Client(), "start", 2).Enter(t.Context())
		require.NoError(t, err)
		s.Expire(unlucky)
		require.ErrorIs(t, <-lost, coord.ErrLost)
		require.NoError(t, in.Context().Err())
		require.NoError(t, in.Leave(t.Context()))
		require.Error(t, in.Context().Err())
	})
}

func TestAWaitThatIsGivenUpLeavesNothing(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := s.Client()
		a := comes(ctx, c, 3)
		b := comes(ctx, c, 3)
		for _, on := range []<-chan gone{a, b} {
			g := <-on
			require.ErrorIs(t, g.err, context.DeadlineExceeded)
			require.EqualError(t, g.err, `turnwise: wait "start": context deadline exceeded: 2 of 3 have come`)
		}
		require.Zero(t, stands(t, s))
	})
}

func TestAServiceThatIsOutOfReachIsSaid(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		a := comes(t.Context(), c, 2)
		defer s.Partition(c)()
		g := <-a
		require.ErrorIs(t, g.err, context.DeadlineExceeded)
		require.ErrorIs(t, g.err, coord.ErrUnavailable)
	})
}

func TestWhatCannotBeIsSaid(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a := comes(ctx, s.Client(), 3)
		for name, on := range map[string]<-chan gone{
			"another size":   comes(ctx, s.Client(), 2),
			"no size at all": comes(ctx, s.Client(), 0),
		} {
			require.ErrorIs(t, (<-on).err, coord.ErrInvalid, name)
		}
		require.ErrorIs(t, barrier.New(s.Client(), "start", 3).Do(ctx, nil), coord.ErrInvalid)
		all, err := s.Client().Line(ctx, "start")
		require.NoError(t, err)
		require.NoError(t, s.Client().Break(ctx, all[0]))
		require.ErrorIs(t, (<-a).err, coord.ErrRemoved)

		closed := s.Client()
		b := comes(ctx, closed, 3)
		require.NoError(t, closed.Close())
		require.ErrorIs(t, (<-b).err, coord.ErrClosed)
		err = mutex.New(s.Client(), "start").Do(ctx, func(ctx context.Context, h *coord.Hold) error { return h.SetMemo(ctx, []byte("ran")) })
		require.NoError(t, err)
		require.ErrorIs(t, (<-comes(ctx, s.Client(), 1)).err, coord.ErrInvalid, "the line is another recipe's")
	})
}

// However they come and go: of each round there are as many as it takes, and no more if some are cut off meanwhile.
func TestOfEachRoundThereAreAsManyAsItTakes(t *testing.T) {
	for _, faults := range []bool{false, true} {
		t.Run(fmt.Sprintf("faults: %v", faults), func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *mem.Service) { manyRounds(t, s, faults) })
		})
	}
}

func manyRounds(t *testing.T, s *mem.Service, faults bool) {
	const size, callers, rounds = 4, 6, 20
	ctx, enough := context.WithTimeout(t.Context(), time.Hour)
	defer enough()
	var mu sync.Mutex
	of := make(map[uint64]int)
	var all sync.WaitGroup
	for range callers {
		c := s.Client()
		b := barrier.New(c, "start", size)
		all.Go(func() {
			for {
				r, err := b.Wait(ctx)
				if ctx.Err() != nil {
					return
				}
				if err == nil {
					mu.Lock()
					of[r]++
					mu.Unlock()
				} else if !faults || !assert.ErrorIs(t, err, coord.ErrLost) {
					assert.NoError(t, err)
					return
				}
				if r > rounds {
					enough()
				}
				time.Sleep(rand.N(time.Second))
			}
		})
		all.Go(func() {
			for faults && ctx.Err() == nil {
				time.Sleep(rand.N(5 * time.Second))
				if rand.N(2) == 0 {
					s.Expire(c)
					continue
				}
				heal := s.Partition(c)
				time.Sleep(rand.N(20 * time.Second))
				heal()
			}
		})
	}
	all.Wait()
	assert.Greater(t, len(of), rounds/2)
	for r, n := range of {
		assert.LessOrEqual(t, n, size, "round %d", r)
		if !faults && r <= rounds {
			assert.Equal(t, size, n, "round %d", r)
		}
	}
}

// One that waits for another number is stopped before it has looked who else is there.
func TestWhoWaitsForAnotherNumberIsNotCounted(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		a := comes(t.Context(), s.Client(), 2)
		h, err := s.Client().Acquire(t.Context(), "start", rules.Reader, []byte("barrier for 3"), coord.RuleOf(rules.Reader))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.Empty(t, a, "nobody goes on alone")
		require.NoError(t, h.Release())
		require.Equal(t, gone{1, nil}, <-comes(t.Context(), s.Client(), 2))
		require.Equal(t, gone{1, nil}, <-a)
	})
}

func TestAReaderOfTheLineIsNotCounted(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		a := comes(t.Context(), s.Client(), 2)
		h, err := rwlock.New(s.Client(), "start").RLock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.Empty(t, a, "nobody goes on alone")
		require.NoError(t, h.Release())
		require.Equal(t, gone{1, nil}, <-comes(t.Context(), s.Client(), 2))
		require.Equal(t, gone{1, nil}, <-a)
	})
}

// noMemo is a service that has no answer when it is asked for a memo.
type noMemo struct{ driver.Driver }

func (noMemo) Memo(ctx context.Context, _ string) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// fitful is a service that fails now and then when it is asked for a memo.
type fitful struct {
	driver.Driver
	silent *atomic.Bool
}

func (f fitful) Memo(ctx context.Context, line string) ([]byte, error) {
	if f.silent.Load() {
		return nil, errors.New("no answer")
	}
	return f.Driver.Memo(ctx, line)
}

// The first in line has seen that enough have come, and hears only later which round has begun last.
func TestWhoHasLeftLongBeforeTheRoundBeginsIsNotCounted(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var silent atomic.Bool
		a := comes(t.Context(), coord.NewClient(fitful{s.Client().Driver(), &silent}), 2)
		silent.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		b := comes(ctx, s.Client(), 2)
		time.Sleep(time.Minute)
		cancel()
		require.ErrorIs(t, (<-b).err, context.Canceled)
		time.Sleep(time.Minute)
		silent.Store(false)
		time.Sleep(time.Minute)
		require.Empty(t, a, "nobody goes on alone")
		require.Equal(t, gone{1, nil}, <-comes(t.Context(), s.Client(), 2))
		require.Equal(t, gone{1, nil}, <-a)
	})
}

// It has lost its place, and asks whether it was counted.
func TestWhoGivesUpWhileItAsksIsToldSo(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var silent atomic.Bool
		under := s.Client()
		ctx, cancel := context.WithCancel(t.Context())
		a := comes(ctx, coord.NewClient(fitful{under.Driver(), &silent}), 2)
		silent.Store(true)
		s.Expire(under)
		time.Sleep(time.Minute)
		require.Empty(t, a)
		cancel()
		err := (<-a).err
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "no answer")
	})
}

func TestAMemoThatCannotBeReadIsSaid(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := coord.NewClient(noMemo{s.Client().Driver()})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := barrier.New(c, "start", 1).Wait(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, coord.ErrUnavailable)
		synctest.Wait()
	})
}

// Who has left holds nothing any more, so Shutdown has nothing to wait for, and the client is closed before the others have left.
func TestALeaveIsNotWaitedForByShutdown(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		other := make(chan *barrier.Inside, 1)
		go func() {
			in, err := barrier.New(s.Client(), "start", 2).Enter(t.Context())
			assert.NoError(t, err)
			other <- in
		}()
		in, err := barrier.New(c, "start", 2).Enter(t.Context())
		require.NoError(t, err)
		left := make(chan error, 1)
		go func() { left <- in.Leave(t.Context()) }()
		synctest.Wait()
		require.NoError(t, c.Shutdown(t.Context()))
		require.ErrorIs(t, <-left, coord.ErrClosed)
		assert.Equal(t, 1, stands(t, s), "it has left all the same")
		require.NoError(t, (<-other).Leave(t.Context()))
	})
}
