package etcd

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// crew are the goroutines of a session. A few that have nothing to do stay for a while: a stack that has grown for one
// request is large enough for the next.
type crew struct {
	idle chan func()
	rest atomic.Int32 // how many have nothing to do
	work sync.WaitGroup
}

const (
	maxIdle   = 4
	lingerFor = time.Second
)

func newCrew() *crew { return &crew{idle: make(chan func())} }

func (c *crew) do(life context.Context, f func()) {
	select {
	case c.idle <- f:
	default:
		c.work.Go(func() {
			for f != nil {
				f()
				f = c.next(life)
			}
		})
	}
}

// next is nil when there is no more to do.
func (c *crew) next(life context.Context) func() {
	defer c.rest.Add(-1)
	if c.rest.Add(1) > maxIdle {
		return nil
	}
	t := time.NewTimer(lingerFor)
	defer t.Stop()
	select {
	case f := <-c.idle:
		return f
	case <-t.C:
	case <-life.Done():
	}
	return nil
}
