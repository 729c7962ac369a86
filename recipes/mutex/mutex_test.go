package mutex_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/turnwise/turnwise/verify/bubble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func lock(t *testing.T, c *coord.Client, opts ...mutex.Option) *coord.Hold {
	t.Helper()
	h, err := mutex.New(c, "line", opts...).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Err())
	return h
}

func TestOneHolderAtATimeInTheOrderOfTheLine(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		first := lock(t, s.Client())
		var inside, order = 0, []int{}
		var last coord.Token
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				c := s.Client()
				time.Sleep(time.Duration(i) * time.Millisecond)
				err := mutex.New(c, "line").Do(t.Context(), func(ctx context.Context, h *coord.Hold) error {
					inside++
					assert.Equal(t, 1, inside, "somebody else is inside")
					assert.Greater(t, h.Token(), last)
					last = h.Token()
					order = append(order, i)
					time.Sleep(time.Second)
					inside--
					return nil
				})
				assert.NoError(t, err)
			})
		}
		time.Sleep(time.Second)
		assert.Empty(t, order, "somebody entered while the first was inside")
		require.NoError(t, first.Release())
		all.Wait()
		for i, who := range order {
			assert.Equal(t, i, who, "served out of turn")
		}
		assert.Len(t, order, 20)
	})
}

func TestCancelledWaiterLeavesNothingAndLetsTheNextOnePass(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		holder := lock(t, s.Client())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := mutex.New(s.Client(), "line").Lock(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, coord.ErrBusy)
		assert.NotErrorIs(t, err, coord.ErrUnavailable)
		assert.ErrorContains(t, err, `"line"`)
		require.NoError(t, holder.Release())
		lock(t, s.Client()).Release()
	})
}

func TestHoldEndsBeforeTheServiceLetsTheNextOneIn(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		cut := s.Client()
		h := lock(t, cut)
		next := mutex.New(s.Client(), "line").LockChan(t.Context())
		heal := s.Partition(cut)
		select {
		case <-h.Context().Done():
		case <-next:
			t.Fatal("let in beside a holder that still believes")
		}
		assert.ErrorIs(t, context.Cause(h.Context()), coord.ErrLost)
		assert.ErrorIs(t, h.Err(), coord.ErrLost)
		r := <-next
		require.NoError(t, r.Err)
		assert.Greater(t, r.Hold.Token(), h.Token())
		heal()
		assert.ErrorIs(t, h.Release(), coord.ErrLost)
		require.NoError(t, r.Hold.Release())
	})
}

func TestErrIsRightWithoutWaitingForATimer(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		h := lock(t, c)
		deadline := h.Deadline()
		defer s.Partition(c)()
		time.Sleep(time.Until(deadline))
		assert.ErrorIs(t, h.Err(), coord.ErrLost, "asked at the deadline, before any timer ran")
		h.Release()
		time.Sleep(20 * time.Second)
	})
}

func TestWaiterKeepsItsPlaceOverAShortPartition(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		holder := lock(t, s.Client())
		waiting := s.Client()
		turn := mutex.New(waiting, "line").LockChan(t.Context())
		synctest.Wait()
		before, err := holder.Node(), error(nil)
		require.NoError(t, err)
		heal := s.Partition(waiting)
		time.Sleep(9500 * time.Millisecond / 10)
		heal()
		line, err := s.Client().Line(t.Context(), "line")
		require.NoError(t, err)
		require.Len(t, line, 2)
		assert.Equal(t, before.ID, line[0].ID)
		require.NoError(t, holder.Release())
		r := <-turn
		require.NoError(t, r.Err)
		assert.Equal(t, line[1].ID, r.Hold.Node().ID, "it has another node than before")
		r.Hold.Release()
	})
}

func TestWaiterWhoseSessionIsLostJoinsAgainAtTheTail(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		rejoined := 0
		holder := lock(t, s.Client())
		unlucky := s.Client(coord.WithObserver(&coord.Observer{Rejoining: func(time.Time, coord.Node) { rejoined++ }}))
		turn := mutex.New(unlucky, "line").LockChan(t.Context())
		synctest.Wait()
		other := mutex.New(s.Client(), "line").LockChan(t.Context())
		synctest.Wait()
		s.Expire(unlucky)
		synctest.Wait()
		assert.Equal(t, 1, rejoined)
		holder.Release()
		r := <-other
		require.NoError(t, r.Err)
		select {
		case <-turn:
			t.Fatal("it kept a place that its session had lost")
		default:
		}
		r.Hold.Release()
		r = <-turn
		require.NoError(t, r.Err)
		r.Hold.Release()
	})
}

func TestRemovedByAnOperator(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		operator := s.Client()
		holder := lock(t, s.Client(coord.WithOwnerLabel("billing")))
		_, err := mutex.New(s.Client(), "line").TryLock(t.Context())
		assert.ErrorIs(t, err, coord.ErrBusy)
		waiter := mutex.New(s.Client(), "line").LockChan(t.Context())
		time.Sleep(time.Second)

		line, err := operator.Line(t.Context(), "line")
		require.NoError(t, err)
		require.Len(t, line, 2)
		assert.True(t, line[0].Holds)
		assert.False(t, line[1].Holds)
		assert.Equal(t, "billing", line[0].Owner.Label)

		require.NoError(t, operator.Break(t.Context(), line[1]))
		assert.ErrorIs(t, (<-waiter).Err, coord.ErrRemoved)
		assert.ErrorIs(t, operator.Break(t.Context(), line[1]), coord.ErrRemoved)

		require.NoError(t, operator.Break(t.Context(), line[0]))
		synctest.Wait()
		assert.ErrorIs(t, holder.Err(), coord.ErrLost)
		assert.ErrorIs(t, holder.Release(), coord.ErrLost)
	})
}

func TestLockInsideAHold(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		outer := lock(t, c)
		_, err := mutex.New(c, "line").Lock(outer.Context())
		assert.ErrorIs(t, err, coord.ErrHeld, "at once, not a deadlock")
		with, cancel := outer.With(t.Context())
		defer cancel()
		_, err = mutex.New(c, "line").TryLock(with)
		assert.ErrorIs(t, err, coord.ErrHeld)

		reentrant := mutex.New(c, "line", mutex.Reentrant())
		inner, err := reentrant.Lock(outer.Context())
		require.NoError(t, err)
		assert.Equal(t, outer.Token(), inner.Token())
		innermost, err := reentrant.Lock(inner.Context())
		require.NoError(t, err)
		require.NoError(t, inner.Release())
		require.NoError(t, inner.Release(), "a second time")
		assert.NoError(t, outer.Err(), "the outer one stays")
		require.NoError(t, outer.Release())
		synctest.Wait()
		assert.Error(t, innermost.Err(), "gone with the outer one")
		assert.ErrorIs(t, innermost.Release(), coord.ErrLost)
	})
}

func TestDoJoinsTheLossToTheFunctionsError(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		own := errors.New("half done")
		err := mutex.New(c, "line").Do(t.Context(), func(ctx context.Context, h *coord.Hold) error {
			s.Expire(c)
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), coord.ErrLost)
			return own
		})
		assert.ErrorIs(t, err, own)
		assert.ErrorIs(t, err, coord.ErrLost)

		assert.ErrorIs(t, mutex.New(c, "line").Do(t.Context(), nil), coord.ErrInvalid)
	})
}

func TestPanicReleases(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		assert.PanicsWithValue(t, "oops", func() {
			mutex.New(c, "line").Do(t.Context(), func(context.Context, *coord.Hold) error { panic("oops") })
		})
		h, err := mutex.New(c, "line").TryLock(t.Context())
		require.NoError(t, err)
		h.Release()
	})
}

func TestChannelThatNobodyReadsGivesTheLockBack(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, cancel := context.WithCancel(t.Context())
		abandoned := mutex.New(s.Client(), "line").LockChan(ctx)
		synctest.Wait()
		cancel()
		lock(t, s.Client()).Release()
		r := <-abandoned
		assert.Nil(t, r.Hold)
		assert.ErrorIs(t, r.Err, context.Canceled)
		_, more := <-abandoned
		assert.False(t, more)
	})
}

func TestMaxWait(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		holder := lock(t, s.Client())
		start := time.Now()
		_, err := mutex.New(s.Client(), "line", nil, mutex.MaxWait(3*time.Second)).Lock(t.Context())
		assert.ErrorIs(t, err, coord.ErrBusy)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 3*time.Second, time.Since(start).Round(time.Second))
		holder.Release()
	})
}

func TestServiceOutOfReachIsNotBusy(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		heal := s.Partition(c)
		_, err := mutex.New(c, "line").TryLock(t.Context())
		assert.ErrorIs(t, err, coord.ErrUnavailable)
		assert.NotErrorIs(t, err, coord.ErrBusy)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = mutex.New(c, "line").Lock(ctx)
		assert.ErrorIs(t, err, coord.ErrUnavailable)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		heal()
		lock(t, c).Release()
	})
}

func TestShutdownWaitsForHoldsAndTurnsWaitersAway(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		h := lock(t, c)
		waiter := mutex.New(c, "line").LockChan(t.Context())
		synctest.Wait()
		done := make(chan error, 1)
		go func() { done <- c.Shutdown(t.Context()) }()
		assert.ErrorIs(t, (<-waiter).Err, coord.ErrClosed)
		_, err := mutex.New(c, "other").Lock(t.Context())
		assert.ErrorIs(t, err, coord.ErrClosed)
		time.Sleep(time.Minute)
		assert.NoError(t, h.Err(), "the hold goes on")
		require.NoError(t, h.Release())
		assert.NoError(t, <-done)
	})
}

func TestCloseBesideRunningWorkKeepsOthersOut(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		h := lock(t, c)
		require.NoError(t, c.Close())
		assert.ErrorIs(t, context.Cause(h.Context()), coord.ErrClosed)
		_, err := mutex.New(s.Client(), "line").TryLock(t.Context())
		assert.ErrorIs(t, err, coord.ErrBusy, "the work may still run")
		assert.ErrorIs(t, h.Release(), coord.ErrLost)
		lock(t, s.Client()).Release() // once the session has expired
	})
}

func TestLockerPanicsOnMisuse(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		l := mutex.New(s.Client(), "line").Locker(t.Context())
		assert.Panics(t, l.Unlock)
		l.Lock()
		//lint:ignore SA2001 that it does not panic is all there is to see
		l.Unlock()
	})
}

func TestSilliestMistakes(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		for _, name := range []string{"", "/a", "a/", "a//b", ".", "a/..", "a\x00", "a\xff", string(make([]byte, 300))} {
			_, err := mutex.New(c, name).Lock(t.Context())
			assert.ErrorIs(t, err, coord.ErrInvalidName, "%q", name)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := mutex.New(c, "line").Lock(ended)
		assert.ErrorIs(t, err, context.Canceled)
		_, err = mutex.New(c, "line").TryLock(ended)
		assert.ErrorIs(t, err, context.Canceled)
	})
}

func TestALockerDoesNotLockWithoutTheMutex(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		holder := lock(t, s.Client())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l := mutex.New(s.Client(), "line").Locker(ctx)
		entered := false
		err := recovered(func() {
			l.Lock()
			entered = true
		})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, coord.ErrBusy)
		assert.False(t, entered, "beside the holder")
		assert.Panics(t, l.Unlock, "there is nothing to unlock")
		require.NoError(t, holder.Release())
	})
}

func TestALockerTellsThatItWasNotLockedToTheEnd(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		l := mutex.New(c, "line").Locker(t.Context())
		l.Lock()
		_, err := mutex.New(s.Client(), "line").TryLock(t.Context())
		assert.ErrorIs(t, err, coord.ErrBusy)
		s.Expire(c)
		synctest.Wait()
		assert.ErrorIs(t, recovered(l.Unlock), coord.ErrLost)
		l.Lock()
		_, err = mutex.New(s.Client(), "line").TryLock(t.Context())
		assert.ErrorIs(t, err, coord.ErrBusy, "it can be locked again")
		l.Unlock()
	})
}

// recovered returns the error that f panics with.
func recovered(f func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	f()
	return nil
}

func Example() {
	service := mem.New() // or zk.Connect, etcd.Connect
	defer service.Close()
	client := service.Client()

	err := mutex.New(client, "orders").Do(context.Background(), func(ctx context.Context, h *coord.Hold) error {
		fmt.Println("inside, surely held:", h.Err() == nil)
		return nil
	})
	fmt.Println(err)
	// Output:
	// inside, surely held: true
	// <nil>
}
