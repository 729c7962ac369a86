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
