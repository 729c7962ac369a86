package memory

import (
	"bytes"
	"context"

	"github.com/turnwise/turnwise/coord/driver"
)

func (p *place) Amend(ctx context.Context, kind string, data []byte) error {
	was := p.Node()
	p.beginAmending()
	now, err := p.amend(ctx, kind, data)
	p.endAmending(was.ID, now, err == nil)
	return err
}

func (p *place) amend(ctx context.Context, kind string, data []byte) (driver.Node, error) {
	me := p.Node()
	find := func() (answer, error) {
		return p.insist(ctx, Request{Op: "find", Line: me.Line, Node: me.ID}, func() answer { return p.service().find(p.id, me.ID) })
	}
	a, err := find()
	version := a.node.version
	for err == nil && a.found {
		a, err = p.once(ctx, Request{Op: "amend", Line: me.Line, Node: me.ID, Changes: true},
			func() answer { return p.service().amend(p.id, me.ID, version, kind, data) })
		switch {
		case err == errUnknown: // a late one fails, since its version is out of date
			a, err = find()
			if err == nil && a.found && a.node.version > version {
				if a.node.Kind == kind && bytes.Equal(a.node.Data, data) {
					return a.node.Node, nil
				}
				version = a.node.version // somebody else has written to it
			}
		case err == nil && a.found && !a.refused:
			return a.node.Node, nil
		case err == nil && a.refused:
			version = a.node.version
		}
	}
	if err == nil {
		err = driver.ErrRemoved
	}
	return me, err
}

// beginAmending and endAmending tell those who watch over the node that its ID may go though the node stays.
func (p *place) beginAmending() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.amending++
}

func (p *place) endAmending(was string, now driver.Node, done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.amending--
	if done {
		p.node = now
	}
	if shared := p.watches[was]; shared != nil && (!done || now.ID != was) {
		shared.renamed = true // perhaps: its watchers will ask
	}
}
