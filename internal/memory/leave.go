package memory

import (
	"context"
	"errors"

	"github.com/turnwise/turnwise/coord/driver"
)

func (p *place) Leave(ctx context.Context, held bool) error {
	p.over.Do(func() { p.stand(-1) })
	me := p.Node()
	err := p.takeAway(ctx, me, held)
	if err != nil && !errors.Is(err, driver.ErrSessionEnded) {
		chore := p.chore(ctx)
		p.life.Errand(func() { _ = p.takeAway(chore, me, held) })
	}
	return err
}

// takeAway removes a node, however many tries that takes.
func (s *session) takeAway(ctx context.Context, me driver.Node, held bool) error {
	_, err := s.insist(ctx, Request{Op: "leave", Line: me.Line, Node: me.ID, Changes: true},
		func() answer { return s.service().leave(s.id, me.ID, held) })
	return err
}
