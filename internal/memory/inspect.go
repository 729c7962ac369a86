package memory

import (
	"cmp"
	"context"

	"github.com/turnwise/turnwise/coord/driver"
)

func (d *Driver) Line(ctx context.Context, line string) ([]driver.Node, error) {
	return fetch(ctx, d, Request{Op: "line", Line: line}, func() []driver.Node { return d.service.Nodes(line) })
}

func (d *Driver) Lines(ctx context.Context, prefix string) ([]string, error) {
	return fetch(ctx, d, Request{Op: "lines", Line: prefix}, func() []string { return d.service.Names(prefix) })
}

func (d *Driver) Remove(ctx context.Context, n driver.Node) error {
	var found bool
	err := d.do(ctx, Request{Op: "remove", Line: n.Line, Node: n.ID}, func() { found = d.service.remove(n.ID) })
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	if !found {
		return driver.ErrRemoved
	}
	return nil
}
