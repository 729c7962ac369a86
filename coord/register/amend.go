package register

import (
	"bytes"
	"context"

	"github.com/turnwise/turnwise/coord/driver"
)

func (p *place) Amend(ctx context.Context, kind string, data []byte) error {
	s := p.s
	if err := s.life.Stopped(ctx); err != nil {
		return err
	}
	was := p.Node()
	aside := p.aside
	if !bytes.Equal(data, was.Data) {
		var err error
		if aside, err = p.putAside(ctx, data); err != nil {
			return err
		}
	}
	var me node
	w := newWish(s, func(d *draft, t try) error {
		n, ok := d.find(s.id, p.n)
		switch {
		case !ok && t.fresh:
			return driver.ErrRemoved
		case !ok:
			return errLook
		case d.kinds[n.kind] == kind && bytes.Equal(n.data, inside(data)) && n.aside == aside:
			if me = n; !t.fresh { // such an amendment is made to hear that the node stands
				return errLook
			}
			return nil
		}
		me = d.amend(n, kind, inside(data), aside)
		return nil
	})
	w.grows = true
	if err := p.change(ctx, w); err != nil {
		return err
	}
	p.mu.Lock()
	p.shown.ID, p.shown.Kind, p.shown.Data = nodeID{s.id, p.n, me.rev}.String(), kind, bytes.Clone(data)
	p.mu.Unlock()
	p.aside = aside
	if old := p.puts.Load(); old > p.forgotten.Load() {
		if aside == 0 {
			aside = old + 1
		}
		s.life.Go(func() { p.forgetAside(aside) })
	}
	return nil
}

// change has a wish carried out that needs the node. If the node is not there it was removed, or its session is over.
func (p *place) change(ctx context.Context, w *wish) error {
	err := p.clerk.await(ctx, p.clerk.want(w))
	if err == driver.ErrRemoved {
		if ended := p.s.alive(ctx); ended != nil {
			return ended
		}
	}
	return err
}
