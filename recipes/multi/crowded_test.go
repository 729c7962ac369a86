package multi_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/multi"
	"github.com/turnwise/turnwise/verify/bubble"
)

// crowded is a service where joins of line a wait until there is a place for them.
type crowded struct {
	driver.Driver
	room chan struct{}
}

func (d *crowded) Open(ctx context.Context) (driver.Session, error) {
	s, err := d.Driver.Open(ctx)
	return &crowdedSession{s, d}, err
}

type crowdedSession struct {
	driver.Session
	*crowded
}

func (s *crowdedSession) Join(ctx context.Context, e driver.Entry) (driver.Place, []driver.Node, error) {
	if e.Line == "a" && e.Waits != nil {
		e.Waits()
		<-s.room
	}
	return s.Session.Join(ctx, e)
}

func TestWhoWaitsForAPlaceInALineHoldsNoneBehindIt(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		d := &crowded{s.Client().Driver(), make(chan struct{})}
		held := make(chan *multi.Hold)
		go func() {
			h, err := multi.New(coord.NewClient(d), multi.Write("a"), multi.Write("b")).Lock(t.Context())
			assert.NoError(t, err)
			held <- h
		}()
		synctest.Wait()
		assert.Zero(t, standing(t, s, "b"))
		close(d.room)
		require.NoError(t, (<-held).Release())
	})
}
