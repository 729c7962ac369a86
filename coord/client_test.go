package coord_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/verify/bubble"
)

func TestOptionsThatAreNilChangeNothing(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client(nil, coord.WithOwnerLabel("billing"), coord.WithObserver(nil), nil)
		h, err := c.Acquire(t.Context(), "line", "lock", nil, exclusive, nil, coord.Anew(), nil)
		require.NoError(t, err)
		assert.Equal(t, "billing", h.Node().Owner.Label)
		require.NoError(t, h.Release())
	})
}

func TestAClientNeedsADriver(t *testing.T) {
	assert.PanicsWithValue(t, "turnwise: NewClient needs a driver, and got nil", func() { coord.NewClient(nil) })
}

func TestARequestTimeoutBoundsWhatWaitsForTheServiceAlone(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		plain := s.Client()
		drivers := plain.Driver().RequestTimeout()
		for _, c := range []struct {
			client *coord.Client
			limit  time.Duration
		}{
			{plain, drivers},
			{s.Client(coord.WithRequestTimeout(0)), drivers},
			{s.Client(coord.WithRequestTimeout(-time.Second)), drivers},
			{s.Client(coord.WithRequestTimeout(drivers / 10)), drivers / 10},
			{s.Client(coord.WithRequestTimeout(3 * drivers)), 3 * drivers},
		} {
			h, err := c.client.Acquire(t.Context(), "line", "lock", nil, exclusive)
			require.NoError(t, err)
			heal := s.Partition(c.client)
			for op, call := range map[string]func() error{
				"try": func() error {
					_, err := c.client.TryAcquire(t.Context(), "other", "lock", nil, exclusive)
					return err
				},
				"line": func() error {
					_, err := c.client.Line(t.Context(), "line")
					return err
				},
				"first": func() error {
					_, err := c.client.First(t.Context(), "line")
					return err
				},
				"lines": func() error {
					_, err := c.client.Lines(t.Context(), "")
					return err
				},
				"break":   func() error { return c.client.Break(t.Context(), h.Node()) },
				"release": func() error { h.Release(); return coord.ErrUnavailable }, // it was held until this call
			} {
				began := time.Now()
				assert.ErrorIs(t, call(), coord.ErrUnavailable, op)
				assert.LessOrEqual(t, time.Since(began), c.limit, op)
				least := c.limit * 9 / 10 // a driver may keep a little for itself
				if op == "first" || op == "break" {
					least = min(least, drivers*9/10) // this one sends them once only
				}
				assert.GreaterOrEqual(t, time.Since(began), least, op)
			}
			heal()
			time.Sleep(time.Minute)
		}
	})
}
