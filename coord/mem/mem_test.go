package mem_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestASessionLivesForTheTTL(t *testing.T) {
	for _, c := range []struct{ given, lives time.Duration }{
		{3 * time.Second, 3 * time.Second},
		{0, 10 * time.Second},
		{-time.Second, 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := mem.New(nil, mem.WithTTL(c.given))
			defer s.Close()
			dying := s.Client()
			h, err := mutex.New(dying, "line").Lock(t.Context())
			require.NoError(t, err)
			began := time.Now()
			s.Partition(dying)
			next, err := mutex.New(s.Client(), "line").Lock(t.Context())
			require.NoError(t, err)
			assert.InDelta(t, c.lives, time.Since(began), float64(time.Millisecond))
			assert.ErrorIs(t, h.Err(), coord.ErrLost)
			require.NoError(t, next.Release())
		})
	}
}

func TestAClientOfAnotherServiceIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other := mem.New(), mem.New()
		defer one.Close()
		defer other.Close()
		assert.Panics(t, func() { one.Expire(other.Client()) })
		assert.Panics(t, func() { one.Partition(nil) })
	})
}

func TestRemovedAndGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		defer s.Close()
		h, err := mutex.New(s.Client(), "line").Lock(t.Context())
		require.NoError(t, err)
		assert.True(t, s.Remove(h.Node()))
		assert.False(t, s.Remove(h.Node()), "a second time")
		time.Sleep(time.Second)
		assert.ErrorIs(t, context.Cause(h.Context()), coord.ErrLost)
		assert.ErrorIs(t, h.Release(), coord.ErrLost)
	})
}

func TestAClosedServiceHasNoNewClients(t *testing.T) {
	s := mem.New()
	s.Close()
	assert.PanicsWithValue(t, "turnwise: Client was called on a service after its Close", func() { s.Client() })
}

func TestANodeOfAClientWithANamespaceCanBeRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		defer s.Close()
		h, err := mutex.New(s.Client(coord.WithNamespace("shop")), "line").Lock(t.Context())
		require.NoError(t, err)
		assert.True(t, s.Remove(h.Node()))
	})
}

func TestAPartitionedClientHasNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		defer s.Close()
		c := s.Client()
		defer s.Partition(c)()
		_, err := c.Lines(t.Context(), "")
		assert.ErrorIs(t, err, coord.ErrUnavailable)
		_, err = c.Line(t.Context(), "line")
		assert.ErrorIs(t, err, coord.ErrUnavailable)
		_, err = mutex.New(c, "line").TryLock(t.Context())
		assert.ErrorIs(t, err, coord.ErrUnavailable)
	})
}

func TestWhatWasToldBeforeAPartitionIsHeard(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			s := mem.New()
			defer s.Close()
			h, err := mutex.New(s.Client(), "line").Lock(t.Context())
			require.NoError(t, err)
			waiting := s.Client()
			turn := mutex.New(waiting, "line").LockChan(t.Context())
			synctest.Wait()
			require.NoError(t, h.Release())
			heal := s.Partition(waiting)
			r := <-turn
			require.NoError(t, r.Err)
			heal()
			require.NoError(t, r.Hold.Release())
		})
	}
}

// Nobody waits for it, so nobody looks whether it is alive.
func TestTheNodeOfADeadClientGoesWithItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		defer s.Close()
		dying, other := s.Client(), s.Client()
		_, err := mutex.New(dying, "line").Lock(t.Context())
		require.NoError(t, err)
		s.Partition(dying)
		time.Sleep(10*time.Second - time.Millisecond)
		_, err = mutex.New(other, "line").TryLock(t.Context())
		require.ErrorIs(t, err, coord.ErrBusy)
		time.Sleep(2 * time.Millisecond)
		h, err := mutex.New(other, "line").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Release())
	})
}

func TestAClosedClientThatHeldCanBeExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		defer s.Close()
		c := s.Client()
		_, err := mutex.New(c, "line").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.Close())
		s.Expire(c)
		h, err := mutex.New(s.Client(), "line").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Release())
	})
}

// A service for all tests of a package, and one that nobody closes.
func TestAServiceMayBeMadeOutsideABubble(t *testing.T) {
	s := mem.New()
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			c := s.Client()
			h, err := mutex.New(c, "line").Lock(t.Context())
			require.NoError(t, err)
			require.True(t, s.Remove(h.Node()))
			<-h.Context().Done()
			h, err = mutex.New(c, "line").Lock(t.Context())
			require.NoError(t, err)
			s.Expire(c)
			require.ErrorIs(t, h.Err(), coord.ErrLost)
			require.NoError(t, c.Close())
		})
	}
}

func TestAWatchThatBeginsInAPartitionSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		defer s.Close()
		c := s.Client()
		heal := s.Partition(c)
		errs := 0
		for _, err := range c.Watch(t.Context(), "line") {
			if err == nil {
				break
			}
			if errs++; errs == 3 {
				heal()
			}
		}
		assert.Equal(t, 3, errs, "one at each try")
	})
}
