package httpfence

import (
	"context"
	"fmt"
	"sync"

	"github.com/turnwise/turnwise/fence"
)

// gate sees to it that no request runs beside one with another stamp of the same line. It remembers a line only while
// requests for it are inside: the fence remembers the rest.
//
// A request comes, passes the fence, and is admitted. Only then does it end older ones: anybody may name a great token, and
// what the fence has not let through is nobody's reason to stop.
type gate struct {
	mu    sync.Mutex
	lines map[string]*passage
}

// passage is a line while requests for it are inside.
type passage struct {
	greatest fence.Stamp // of those admitted
	inside   map[*visit]struct{}
	left     chan struct{} // closed, and replaced, whenever a request leaves
}

type visit struct {
	gate     *gate
	line     string
	stamp    fence.Stamp
	of       *passage
	ctx      context.Context // ends with the request, with leave, or when a request with a newer stamp is admitted
	end      context.CancelCauseFunc
	admitted bool // under mu: the fence has let it through
}

// enter is for a request that has not passed the fence yet: it ends nobody. It is refused if a newer one has been admitted.
func (g *gate) enter(ctx context.Context, line string, s fence.Stamp) (*visit, error) {
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
	if err := s.After(p.greatest); err != nil { // then somebody else is inside, and the line stays
		return nil, err
	}
	v := &visit{gate: g, line: line, stamp: s, of: p}
	v.ctx, v.end = context.WithCancelCause(ctx)
	p.inside[v] = struct{}{}
	return v, nil
}

// admit is for a request that has passed the fence. It ends the contexts of those with older stamps, whether they run or
// ask the fence still, and waits until those that were admitted have left.
func (v *visit) admit() error {
	if err := v.shutOutOlder(); err != nil {
		return err
	}
	for {
		left := v.older()
		if left == nil {
			return nil
		}
		select {
		case <-left:
		case <-v.ctx.Done():
			return fmt.Errorf("while older requests were running: %w", context.Cause(v.ctx))
		}
	}
}

func (v *visit) shutOutOlder() error {
	v.gate.mu.Lock()
	defer v.gate.mu.Unlock()
	if v.ctx.Err() != nil { // a newer one has passed the fence after it, and was admitted before it
		return context.Cause(v.ctx)
	}
	v.of.greatest, v.admitted = v.stamp, true
	for other := range v.of.inside {
		if err := other.stamp.After(v.stamp); err != nil {
			other.end(err)
		}
	}
	return nil
}

// older returns nil if no request with a stamp before this one's is admitted and still inside, and otherwise a channel that
// is closed when one leaves.
func (v *visit) older() <-chan struct{} {
	v.gate.mu.Lock()
	defer v.gate.mu.Unlock()
	for other := range v.of.inside {
		if other.admitted && other.stamp.Compare(v.stamp) < 0 {
			return v.of.left
		}
	}
	return nil
}

func (v *visit) leave() {
	v.end(nil)
	v.gate.mu.Lock()
	defer v.gate.mu.Unlock()
	delete(v.of.inside, v)
	close(v.of.left)
	v.of.left = make(chan struct{})
	if len(v.of.inside) == 0 {
		delete(v.gate.lines, v.line)
	}
}
