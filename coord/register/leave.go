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
