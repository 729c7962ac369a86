package memory

import (
	"bytes"
	"cmp"
	"context"

	"github.com/turnwise/turnwise/coord/driver"
)

func (d *Driver) First(ctx context.Context, line string, seen *driver.Node) (driver.Node, error) {
	for {
		changed := d.service.nextChange(line)
		var nodes []driver.Node
		err := d.do(ctx, Request{Op: "first", Line: line}, func() { nodes = d.service.Nodes(line) })
		if err != nil {
			return driver.Node{}, cmp.Or(ctx.Err(), err)
		}
		var first driver.Node
		if len(nodes) > 0 {
			first = nodes[0]
		}
		if seen == nil || first.ID != seen.ID || first.Kind != seen.Kind || !bytes.Equal(first.Data, seen.Data) {
			return first, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return driver.Node{}, ctx.Err()
		}
	}
}
