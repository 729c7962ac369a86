package main

import (
	"context"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/recipes/semaphore"
)

// turnwise is the same for every service.
type turnwise struct {
	alone
	client *coord.Client
}

func ours(c *coord.Client) Client {
	return turnwise{alone{
		acquire: func(ctx context.Context, w Want) (func() error, error) {
			h, err := take(ctx, c, w)
			if err != nil {
				return nil, err
			}
			return h.Release, nil
		},
		close: func() { _ = c.Close() },
	}, c}
}

func take(ctx context.Context, c *coord.Client, w Want) (*coord.Hold, error) {
	switch w.Kind {
	case Read:
		return rwlock.New(c, w.Line, rwlock.Together(w.Together)).RLock(ctx)
	case Write:
		return rwlock.New(c, w.Line).Lock(ctx)
	case Permit:
		return semaphore.New(c, w.Line, w.Permits).Acquire(ctx, 1)
	}
	return mutex.New(c, w.Line, mutex.Together(w.Together)).Lock(ctx)
}

// watching tells the contestant's observer, or counts wake-ups.
func watching(s Setting) coord.Option {
	if s.Observer != nil {
		return coord.WithObserver(s.Observer())
	}
	return coord.WithObserver(&coord.Observer{Woken: func(time.Time, coord.Node) { s.Woken.Add(1) }})
}
