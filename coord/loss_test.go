package coord_test

import (
	"context"
	"strings"
	"sync/atomic"
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

// Nothing else gets to run between the end of the session and the question.
func TestErrKnowsThatTheSessionHasEnded(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		for range 100 {
			c := s.Client()
			h := enter(t, c)
			s.Expire(c)
			require.ErrorIs(t, h.Err(), coord.ErrLost)
			require.False(t, h.Node().Holds)
			h = enter(t, c)
			s.Expire(c)
			require.ErrorIs(t, h.Release(), coord.ErrLost, "not held to the end")
		}
		synctest.Wait()
	})
}

func TestWhoDropsASessionEndsItsHoldsBeforeItJoinsAgain(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		for range 100 {
			c := s.Client()
			old := enter(t, c)
			inner := within(t, c, old.Context(), "lock")
			s.Expire(c)
			again, err := c.TryAcquire(t.Context(), "line", "lock", nil, exclusive)
			require.ErrorIs(t, context.Cause(old.Context()), coord.ErrLost, "the context of its old hold goes on")
			require.ErrorIs(t, context.Cause(inner.Context()), coord.ErrLost)
			require.NoError(t, err)
			require.NoError(t, again.Release())
			require.ErrorIs(t, old.Release(), coord.ErrLost)
		}
		synctest.Wait()
	})
}

func TestASlowHookKeepsNoHoldAlive(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		slow := func(time.Time) { time.Sleep(time.Minute) }
		c := s.Client(coord.WithObserver(&coord.Observer{
			SessionOpened: slow,
			SessionEnded:  func(at time.Time, _ error) { slow(at) },
			Granted:       func(at time.Time, _ coord.Node, _ time.Duration) { slow(at) },
			Lost:          func(at time.Time, _ coord.Node, _ error) { slow(at) },
		}))
		began := time.Now()
		var holds []*coord.Hold
		for _, line := range []string{"a", "b", "c", "d"} {
			h, err := c.Acquire(t.Context(), line, "lock", nil, exclusive)
			require.NoError(t, err)
			holds = append(holds, h)
		}
		assert.Zero(t, time.Since(began), "nor does it keep anybody from a turn")
		until := holds[0].Deadline()
		heal := s.Partition(c)
		for _, h := range holds {
			<-h.Context().Done()
			assert.LessOrEqual(t, time.Since(until), time.Millisecond)
		}
		for _, h := range holds {
			assert.ErrorIs(t, h.Release(), coord.ErrLost)
		}
		heal()
		require.NoError(t, c.Close())
		time.Sleep(time.Hour) // for the hooks
	})
}

func TestTheEndOfASessionIsToldBeforeTheNextOneOpens(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var told diary
		c := s.Client(told.option())
		var want []string
		for range 50 {
			h := enter(t, c)
			s.Expire(c)
			h.Release()
			want = append(want, "session opened", "granted", "lost", "session ended")
		}
		time.Sleep(time.Second) // so much in one instant is told together
		var got []string
		for _, line := range told.read() {
			for _, w := range want[:4] {
				if strings.Contains(line, w) {
					got = append(got, w)
				}
			}
		}
		assert.Equal(t, want, got)
	})
}

// When a server says that a node has gone, and hangs up, nobody can be asked whether the session has gone with it.
func TestAHoldEndsBeforeItIsKnownWhy(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		gone := make(chan struct{})
		m := &meddler{watch: func(ctx context.Context, _ func() error) error {
			select {
			case <-gone:
				return driver.ErrSessionEnded
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		c := m.client(s)
		h := enter(t, c)
		time.Sleep(time.Second)
		close(gone)
		synctest.Wait()
		assert.Error(t, h.Context().Err())
		why := h.Err()
		assert.ErrorIs(t, why, coord.ErrLost)
		assert.NotErrorIs(t, why, coord.ErrRemoved)
		assert.ErrorIs(t, h.Release(), coord.ErrLost)
		m.watch = nil
		require.NoError(t, enter(t, c).Release(), "the session has lived on")
		require.NoError(t, c.Close())
	})
}

// While nothing of it stands in line, a session may be past its deadline. It costs nothing then, and the next hold ends in
// time, whether or not anybody asks.
func TestASessionThatIdlesPastItsDeadline(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var until atomic.Pointer[time.Time]
		var asked atomic.Int64
		m := &meddler{deadline: func(driver.Session) time.Time {
			asked.Add(1)
			return *until.Load()
		}}
		sureFor := func(d time.Duration) {
			at := time.Now().Add(d)
			until.Store(&at)
		}
		sureFor(time.Second)
		c := m.client(s)
		require.NoError(t, enter(t, c).Release())
		for range 3 {
			time.Sleep(time.Minute)
			asked.Store(0)
			time.Sleep(time.Hour)
			assert.LessOrEqual(t, asked.Load(), int64(1), "nobody looks after what is not there")

			sureFor(time.Second)
			h := enter(t, c)
			began := time.Now()
			select {
			case <-h.Context().Done():
			case <-time.After(time.Minute):
			}
			assert.Equal(t, time.Second, time.Since(began))
			assert.ErrorIs(t, h.Release(), coord.ErrLost)
		}
		require.NoError(t, c.Close())
	})
}
