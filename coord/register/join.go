package register

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

func (s *session) Join(ctx context.Context, e driver.Entry) (driver.Place, []driver.Node, error) {
	if err := s.life.Stopped(ctx); err != nil {
		return nil, nil, err
	}
	p := s.enter(e)
	aside, err := p.putAside(ctx, e.Data)
	if err != nil {
		p.goAway()
		return nil, nil, err
	}
	var me node
	var after *draft
	var inTheWay []driver.Node
	var first uint64
	do := func(d *draft, t try) error {
		after = d
		if t.again {
			var made bool
			if me, made = d.find(s.id, p.n); made {
				return nil
			}
		}
		if e.Free != nil {
			inTheWay, first = d.ahead(e.Line, math.MaxUint64, e.Sight), d.first
			if e.InVain(inTheWay) {
				if !t.fresh {
					return errLook
				}
				return driver.ErrBusy
			}
		}
		if d.next >= maxToken {
			return fmt.Errorf("line %q: %w", e.Line, errTokens)
		}
		if d.isFull() {
			return fmt.Errorf("line %q: %w", e.Line, errFull)
		}
		me = d.join(s.id, s.d.identity.public, p.n, e.Kind, e.Owner, inside(e.Data), aside)
		return nil
	}
	w, err := p.join(ctx, do)
	if err == driver.ErrBusy && s.d.clear(ctx, p.clerk, inTheWay, first) {
		w, err = p.join(ctx, do)
	}
	if err == nil {
		err = s.verify(ctx, w)
	}
	if err != nil {
		p.takeBack(w)
		return nil, nil, s.life.Verdict(err)
	}
	p.aside = aside
	p.joined(e, me, after)
	ahead, err := p.rise(ctx, after.ahead(e.Line, me.token, e.Sight))
	if err != nil {
		p.goAway()
		return nil, nil, err
	}
	return p, ahead, nil
}

func joinWish(s *session, do func(d *draft, t try) error) *wish {
	w := newWish(s, do)
	w.creates = true
	return w
}

// join has the clerk put the place in the line. While nobody joins there, it waits.
func (p *place) join(ctx context.Context, do func(d *draft, t try) error) (w *wish, err error) {
	for {
		w = p.clerk.want(joinWish(p.s, do))
		if err = p.clerk.await(ctx, w); !errors.Is(err, errWentBack) {
			return w, err
		}
		p.clerk.mu.Lock()
		wait := time.Until(p.clerk.back)
		p.clerk.mu.Unlock()
		select {
		case <-time.After(wait):
		case <-p.s.life.Done():
			return w, p.s.life.Why()
		case <-ctx.Done():
			return w, fmt.Errorf("%w: line %q has gone back to an earlier state, so nobody is granted there for another %v",
				ctx.Err(), p.clerk.name, wait.Round(time.Millisecond))
		}
	}
}

// verify makes sure that the session has not ended behind our back, if the join had trouble or took long: its nodes may
// have been removed before this one was there. Where every join takes long, that one did says nothing.
func (s *session) verify(ctx context.Context, w *wish) error {
	took := time.Since(w.since)
	usual := time.Duration(s.usual.Load())
	s.usual.Store(int64(usual + (took-usual)/4))
	if !w.open && took < min(4*usual, s.d.cfg.ttl/20)+10*time.Millisecond {
		return s.life.Why()
	}
	return s.alive(ctx)
}

func inside(data []byte) []byte {
	if len(data) > inLine {
		return nil
	}
	return bytes.Clone(data)
}

func (p *place) joined(e driver.Entry, me node, after *draft) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown = driver.Node{Line: e.Line, ID: nodeID{p.s.id, p.n, me.rev}.String(), Kind: e.Kind, Token: driver.Token(me.token),
		Owner: e.Owner, Data: bytes.Clone(e.Data)}
	p.last = after.last == me.token
	p.seen = after.seq
	// What was told before is about a node that an earlier try made, and that was removed.
	if p.turn <= p.seen {
		p.turn = 0
	}
	if p.removed <= p.seen {
		p.removed = 0
	}
}

// takeBack is called after a join has failed: the node may be there, or may come yet.
func (p *place) takeBack(w *wish) {
	if p.clerk.giveUp(w) || p.puts.Load() > p.forgotten.Load() {
		p.goAway()
		return
	}
	p.exit()
}
