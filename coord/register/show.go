package register

import (
	"bytes"
	"context"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// show returns up to most of a line's nodes, with all that they say. Data in a register of its own may be gone by the time
// it is read, because its node has gone; then show looks at the line again.
func (d *Driver) show(ctx context.Context, name string, most int) ([]driver.Node, *line, error) {
	said := asides{d: d, read: make(map[string][]byte), missing: make(map[string]int)}
	for {
		l, err := d.read(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		said.look++
		said.recent, said.lost = 0, 0
		all, err := said.nodes(ctx, name, l, most)
		if err != nil {
			return nil, nil, err
		}
		if said.recent == 0 || said.look == mostLooks {
			return all, l, nil
		}
	}
}

// asides is what the nodes of a line say in registers of their own, as far as that was read. No register is read twice: what stands there
// never changes.
type asides struct {
	d       *Driver
	read    map[string][]byte
	missing map[string]int // in which look each was found to be
	look    int
	recent  int // how many were found to be missing in this look
	lost    int // how many had been missing before this look, and are named again
}

// Whoever may write to a line can name data that is not there, for as many nodes as a line has room for. So a line is looked at only so
// often. Nor is more data read when as much is lost as only somebody who harms the line can have seen to. What is not read is not shown.
const (
	mostLooks = 20 // who stays may say something else with each look
	mostLost  = 16
)

// nodes returns up to most of the nodes. If it has found much to be missing they may not be all, unless this is the last look.
func (a *asides) nodes(ctx context.Context, name string, l *line, most int) (all []driver.Node, err error) {
	owners := make(map[int]*driver.Owner)
	room := driverkit.NewRoom(driverkit.LineBytes)
	for n := range l.nodes() {
		if len(all) == most || a.recent == mostLost && a.look < mostLooks {
			break
		}
		shown := l.full(name, n, owners)
		if n.aside > 0 && !room.IsFull() {
			if shown.Data, err = a.data(ctx, l.id(n).dataKey(n.aside)); err != nil {
				return nil, err
			}
		}
		all = append(all, room.Keep(shown))
	}
	return all, nil
}

// data returns what stands in a register; nothing if it is missing.
func (a *asides) data(ctx context.Context, key string) ([]byte, error) {
	if b, ok := a.read[key]; ok {
		return b, nil
	}
	if look, ok := a.missing[key]; ok {
		if look < a.look {
			a.lost++
		}
		return nil, nil
	}
	if a.lost >= mostLost {
		return nil, nil
	}
	it, err := a.d.readItem(ctx, key)
	switch {
	case err != nil:
		return nil, err
	case it.Version.IsZero():
		a.missing[key] = a.look
		a.recent++
		return nil, nil
	}
	a.read[key] = bytes.Clone(it.Value)
	return a.read[key], nil
}
