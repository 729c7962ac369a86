package register

import (
	"bytes"
	"context"
	"fmt"

	"github.com/turnwise/turnwise/coord/driver"
)

// Remember writes a memo: a small value that stays with the line when its nodes are gone. It is refused with ErrRemoved
// unless the node stands, so a process that has lost its turn cannot write. nil takes the memo away. A line with a memo is
// not deleted, however long it is empty.
func (p *place) Remember(ctx context.Context, memo []byte) error {
	if len(memo) > driver.MaxMemo {
		return fmt.Errorf("a memo of %d bytes is longer than %d", len(memo), driver.MaxMemo)
	}
	if err := p.s.life.Stopped(ctx); err != nil {
		return err
	}
	memo = bytes.Clone(memo)
	w := newWish(p.s, func(d *draft, t try) error {
		switch _, stands := d.find(p.s.id, p.n); {
		case !stands && t.fresh:
			return driver.ErrRemoved
		case !stands:
			return errLook
		}
		if !bytes.Equal(d.value, memo) {
			d.value, d.changed = memo, true
		} else if !t.fresh {
			return errLook
		}
		return nil
	})
	w.grows = true
	return p.change(ctx, w)
}

// Memo returns the memo of a line; nil if there is none.
func (d *Driver) Memo(ctx context.Context, name string) ([]byte, error) {
	l, err := d.read(ctx, name)
	if err != nil || len(l.value) == 0 {
		return nil, err
	}
	return bytes.Clone(l.value), nil
}

// Forget takes away the memo of a line.
func (d *Driver) Forget(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c, leave := d.clerk(name)
	defer leave()
	return c.await(ctx, c.want(newWish(nil, func(dr *draft, t try) error {
		switch {
		case len(dr.value) > 0:
			dr.value, dr.changed = nil, true
		case !t.fresh:
			return errLook
		}
		return nil
	})))
}
