package httpfence

import (
	"context"
	"fmt"
	"sync"

	"github.com/turnwise/turnwise/fence"
)

// gate sees to it that no request runs beside one with another stamp of the same line. It remembers a line only while
// requests for it are inside: the fence remembers the rest.
type gate struct {
	mu    sync.Mutex
	lines map[string]*passage
}

// passage is a line while requests for it are inside.
type passage struct {
	greatest fence.Stamp
	inside   map[*visit]struct{}
	left     chan struct{} // closed, and replaced, whenever a request leaves
}

type visit struct {
	stamp fence.Stamp
	end   context.CancelCauseFunc
}

// enter ends the contexts of requests with older stamps and waits until they have left. ctx governs the wait. The
// context that it returns ends with ctx, with leave, or when a request with a newer stamp has come.
func (g *gate) enter(ctx context.Context, line string, s fence.Stamp) (inside context.Context, leave func(), err error) {
	inside, end := context.WithCancelCause(ctx)
	me := &visit{s, end}
	p, err := g.announce(line, me)
	if err != nil {
		end(nil)
		return nil, nil, err
	}
	leave = func() {
		end(nil)
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(p.inside, me)
		close(p.left)
		p.left = make(chan struct{})
		if len(p.inside) == 0 {
			delete(g.lines, line)
		}
	}
	for {
		left := g.older(p, s)
		if left == nil {
			return inside, leave, nil
		}
		select {
		case <-left:
		case <-inside.Done():
			leave()
			return nil, nil, fmt.Errorf("while older requests were running: %w", context.Cause(inside))
		}
	}
}

func (g *gate) announce(line string, me *visit) (*passage, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.lines[line]
	if p == nil {
		p = &passage{inside: make(map[*visit]struct{}), left: make(chan struct{})}
		if g.lines == nil {
			g.lines = make(map[string]*passage)
		}
		g.lines[line] = p
	}
	if err := me.stamp.After(p.greatest); err != nil {
		return nil, err
	}
	p.greatest = me.stamp
	for other := range p.inside {
		if err := other.stamp.After(me.stamp); err != nil {
			other.end(err)
		}
	}
	p.inside[me] = struct{}{}
	return p, nil
}

// older returns nil if no request with a stamp before s is inside, and otherwise a channel that is closed when one
// leaves.
func (g *gate) older(p *passage, s fence.Stamp) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	for other := range p.inside {
		if other.stamp.Compare(s) < 0 {
			return p.left
		}
	}
	return nil
}
