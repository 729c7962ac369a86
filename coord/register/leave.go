package register

import "context"

func (p *place) Leave(ctx context.Context, _ bool) error {
	if err := p.s.life.Why(); err != nil {
		return err
	}
	w := p.goAway()
	select {
	case <-w.done:
		return w.err
	case err := <-w.said:
		return p.s.life.Verdict(err)
	case <-ctx.Done():
		return p.s.life.Stopped(ctx)
	case <-p.s.life.Done():
		return p.s.life.Why()
	}
}

// goAway takes the node away, however long it takes.
func (p *place) goAway() *wish {
	w := p.clerk.want(newWish(p.s, func(d *draft, _ try) error {
		d.remove(1, left, func(n node) bool { return n.n == p.n && d.members[n.member].id == p.s.id })
		return nil
	}))
	if !p.s.life.Errand(func() {
		defer p.exit()
		select {
		case <-w.done:
			p.forgetAside(p.puts.Load() + 1)
		case <-p.s.life.Done():
		}
	}) {
		p.exit()
	}
	return w
}
