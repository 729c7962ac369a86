package register

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/turnwise/turnwise/coord/driver"
)

func (d *Driver) Line(ctx context.Context, name string) ([]driver.Node, error) {
	all, _, err := d.show(ctx, name, driver.All)
	return all, err
}

func (d *Driver) Lines(ctx context.Context, prefix string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// A list may take longer than a request.
	lctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.life.Context(), cancel)()
	var names []string
	err := d.store.List(lctx, lineKey+prefix, func(it Item) bool {
		if l, err := parseLine(it.Value); err == nil && l.count > 0 {
			names = append(names, strings.TrimPrefix(it.Key, lineKey))
		}
		return true
	})
	if err != nil {
		return nil, d.failed(ctx, err)
	}
	slices.Sort(names)
	return names, nil
}

func (d *Driver) Remove(ctx context.Context, n driver.Node) error {
	id, ok := parseNodeID(n.ID)
	if !ok {
		return driver.ErrRemoved
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c, leave := d.clerk(n.Line)
	defer leave()
	return c.await(ctx, c.want(newWish(nil, func(dr *draft, t try) error {
		switch {
		case dr.remove(1, removed, func(n node) bool { return n.n == id.n && dr.members[n.member].id == id.session }):
			return nil
		case t.again: // an earlier try may have removed it
			return nil
		case t.fresh:
			return driver.ErrRemoved
		}
		return errLook
	})))
}

// EndSession ends a session, whoever owns it, and removes its nodes. An operator uses it to end all that a process holds and
// waits for. The id is what the IDs of the session's nodes begin with, up to the hyphen.
func (d *Driver) EndSession(ctx context.Context, id string) error {
	sid, ok := parseSessionID(id)
	if !ok {
		return fmt.Errorf("turnwise: %q is no session", id)
	}
	for {
		rctx, cancel := d.requestFor(ctx)
		it, err := d.store.Read(rctx, sid.key())
		cancel()
		if err == nil && !it.Version.IsZero() {
			err = d.end(ctx, sid, it.Version)
		}
		switch {
		case errors.Is(err, ErrConflict):
		case err != nil:
			return d.failed(ctx, err)
		default:
			var t toll
			_, err = d.sweepLines(ctx, new(clearing), &t)
			return cmp.Or(err, t.err, t.denied)
		}
	}
}
