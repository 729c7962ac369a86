package coord_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/semaphore"
	"github.com/turnwise/turnwise/verify/bubble"
)

// untouchable has a strength, and panics when it is asked for anything else.
type untouchable struct{ driver.Driver }

func (untouchable) Strength() driver.Strength {
	return coord.Strength{Death: coord.ByTTL, Restart: driver.Forgets, WakeUp: coord.Told}
}

func (untouchable) RequestTimeout() time.Duration { return time.Second }

func (untouchable) Close(context.Context) error { return nil }

var durable = coord.Strength{Restart: coord.Remembers, WakeUp: coord.Told}

func TestAServiceThatPromisesTooLittleIsAskedNothing(t *testing.T) {
	const says = "the service promises too little: asked for: a restart remembers every answered write; promised: a restart forgets silently"
	c := coord.NewClient(untouchable{}, coord.Require(durable))
	ctx := t.Context()
	for op, call := range map[string]func() error{
		`acquire "line"`: func() error { _, err := mutex.New(c, "line").Lock(ctx); return err },
		`try "line"`:     func() error { _, err := mutex.New(c, "line").TryLock(ctx); return err },
		`try "permits"`:  func() error { _, err := semaphore.New(c, "permits", 100).TryAcquire(ctx, 2); return err },
		`line "line"`:    func() error { _, err := c.Line(ctx, "line"); return err },
		`line "first"`:   func() error { _, err := c.First(ctx, "first"); return err },
		`lines "li"`:     func() error { _, err := c.Lines(ctx, "li"); return err },
		`break "line"`:   func() error { return c.Break(ctx, coord.Node{Line: "line", ID: "x"}) },
		`acquire "run"`: func() error {
			return election.New(c, "run").Run(ctx, nil, func(context.Context, *election.Term) error { return nil })
		},
	} {
		err := call()
		require.ErrorIs(t, err, coord.ErrTooWeak, op)
		assert.NotErrorIs(t, err, coord.ErrClosed, op)
		assert.NotErrorIs(t, err, coord.ErrUnavailable, op)
		assert.EqualError(t, err, "turnwise: "+op+": "+says)
	}
	yields := 0
	for _, err := range c.Watch(ctx, "line") {
		yields++
		assert.ErrorIs(t, err, coord.ErrTooWeak)
	}
	assert.Equal(t, 1, yields, "there is nothing to wait for")
	require.NoError(t, c.Shutdown(ctx))
	require.NoError(t, c.Close())
}

func TestAServiceThatPromisesEnoughIsTaken(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client(coord.Require(coord.Strength{Order: coord.FirstCome, Death: coord.ByTTL}), coord.Require(coord.Strength{WakeUp: coord.Told}))
		enter(t, c).Release()
	})
}

func TestEachOfSeveralRequirementsIsToBeMet(t *testing.T) {
	weak, met := coord.Require(durable), coord.Require(coord.Strength{Death: coord.ByTTL})
	promised := untouchable{}.Strength()
	assert.ErrorIs(t, coord.CheckStrength(promised, weak, met), coord.ErrTooWeak)
	assert.ErrorIs(t, coord.CheckStrength(promised, nil, met, weak), coord.ErrTooWeak)
	assert.NoError(t, coord.CheckStrength(promised, met, coord.WithOwnerLabel("a label"), coord.WithObserver(&coord.Observer{}), nil))
	assert.NoError(t, coord.CheckStrength(coord.Strength{}))
}
