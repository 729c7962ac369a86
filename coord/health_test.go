package coord_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/verify/bubble"
)

func TestAClientKnowsHowItStands(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		assert.Zero(t, c.Health(), "nothing was wanted yet")

		h, err := mutex.New(c, "a").Lock(t.Context())
		require.NoError(t, err)
		next := mutex.New(c, "a").LockChan(t.Context())
		time.Sleep(time.Second)
		now := c.Health()
		require.NoError(t, now.Err)
		assert.True(t, now.Session)
		assert.Greater(t, now.Until, time.Now())
		assert.Equal(t, [2]int{1, 1}, [2]int{now.Holds, now.Waiters})
		assert.NoError(t, now.Trouble)

		heal := s.Partition(c)
		time.Sleep(2 * time.Minute)
		now = c.Health()
		assert.ErrorIs(t, now.Err, coord.ErrUnavailable)
		assert.Error(t, h.Err())
		assert.Less(t, now.Until, time.Now())

		heal()
		h.Release()
		r := <-next
		require.NoError(t, r.Err)
		now = c.Health()
		require.NoError(t, now.Err)
		assert.Equal(t, [2]int{1, 0}, [2]int{now.Holds, now.Waiters})
		assert.Error(t, now.Trouble, "the last trouble can be seen when it is over")
		assert.Less(t, time.Since(now.TroubleAt), 3*time.Minute)

		require.NoError(t, r.Hold.Release())
		require.NoError(t, c.Close())
		assert.ErrorIs(t, c.Health().Err, coord.ErrClosed)
	})
}

// A node counts as those who share it, and as nobody while it stays for who asks next.
func TestThoseWhoShareANodeAreCounted(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		counts := func(holds, waiters int) {
			t.Helper()
			synctest.Wait()
			now := c.Health()
			require.NoError(t, now.Err)
			assert.Equal(t, [2]int{holds, waiters}, [2]int{now.Holds, now.Waiters})
		}
		busy, err := mutex.New(s.Client(), "a").Lock(t.Context())
		require.NoError(t, err)
		var turns []<-chan coord.Result
		for range 3 {
			turns = append(turns, mutex.New(c, "a", mutex.Together(time.Second)).LockChan(t.Context()))
			synctest.Wait()
		}
		counts(0, 3)
		require.NoError(t, busy.Release())
		for i, turn := range turns {
			h := bubble.Enters(t, turn)
			counts(1, 2-i)
			require.NoError(t, h.Release())
		}
		counts(0, 0)

		l := rwlock.New(c, "b", rwlock.Together(time.Second))
		for i := range 3 {
			h, err := l.RLock(t.Context())
			require.NoError(t, err)
			counts(i+1, 0)
			defer h.Release()
		}
		s.Expire(c)
		synctest.Wait()
		now := c.Health()
		assert.Equal(t, [2]int{0, 0}, [2]int{now.Holds, now.Waiters})
		time.Sleep(time.Second)
	})
}

// reluctant is a driver whose sessions are not opened as long as it has a reason.
type reluctant struct {
	driver.Driver
	why atomic.Pointer[error]
}

func (r *reluctant) Open(ctx context.Context) (driver.Session, error) {
	if why := r.why.Load(); why != nil && *why != nil {
		return nil, *why
	}
	return r.Driver.Open(ctx)
}

func (r *reluctant) refuse(why error) { r.why.Store(&why) }

func TestAClientKnowsWhyItHasNoSession(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		r := &reluctant{Driver: s.Client().Driver()}
		c := coord.NewClient(r)
		m := mutex.New(c, "a")

		r.refuse(errors.New("no route to host"))
		waiting := m.LockChan(t.Context())
		time.Sleep(time.Second)
		now := c.Health()
		assert.ErrorIs(t, now.Err, coord.ErrUnavailable)
		assert.ErrorContains(t, now.Err, "no route to host")
		assert.Equal(t, 1, now.Waiters)

		r.refuse(driver.ErrDenied)
		assert.ErrorIs(t, (<-waiting).Err, coord.ErrDenied)
		assert.ErrorIs(t, c.Health().Err, coord.ErrDenied, "nobody asks for a session now, but the last one who did was refused for good")

		r.refuse(nil)
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		assert.NoError(t, c.Health().Err)
		require.NoError(t, h.Release())
		require.NoError(t, c.Close())
	})
}
