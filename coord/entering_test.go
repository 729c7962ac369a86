package coord_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/verify/bubble"
)

// crowded has joins wait until there is a place, and keeps what they were to call then.
type crowded struct {
	driver.Driver
	room  chan struct{}
	waits func()
}

func (d *crowded) Open(ctx context.Context) (driver.Session, error) {
	s, err := d.Driver.Open(ctx)
	return &crowdedSession{s, d}, err
}

type crowdedSession struct {
	driver.Session
	d *crowded
}

func (s *crowdedSession) Join(ctx context.Context, e driver.Entry) (driver.Place, []driver.Node, error) {
	if s.d.waits = e.Waits; e.Waits != nil {
		e.Waits()
	}
	select {
	case <-s.d.room:
		return s.Session.Join(ctx, e)
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

func TestWhoWaitsForAPlaceIsToldSoUntilItHasOne(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		d := &crowded{Driver: s.Client().Driver(), room: make(chan struct{})}
		c, told := coord.NewClient(d), 0
		h, done := (*coord.Hold)(nil), make(chan error)
		go func() {
			var err error
			h, err = c.Acquire(t.Context(), "line", "lock", nil, exclusive, coord.OnWait(func() { told++ }))
			done <- err
		}()
		synctest.Wait()
		assert.Equal(t, 1, told)
		close(d.room)
		require.NoError(t, <-done)
		d.waits() // late
		assert.Equal(t, 1, told)
		require.NoError(t, h.Release())

		_, err := c.Acquire(t.Context(), "line", "lock", nil, exclusive, coord.OnWait(func() { panic("oops") }))
		assert.ErrorIs(t, err, coord.ErrInvalid)
		assert.ErrorContains(t, err, "oops")
		assert.Empty(t, lineOf(t, s, "line"))
	})
}
