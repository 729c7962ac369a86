package register

import (
	"bytes"
	"context"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

func (d *Driver) First(ctx context.Context, name string, seen *driver.Node) (driver.Node, error) {
	if seen != nil {
		return d.watchFirst(ctx, name, seen)
	}
	if d.life.Over() {
		return driver.Node{}, errClosed
	}
	n, _, err := d.first(ctx, name)
	return n, err
}

func (d *Driver) first(ctx context.Context, name string) (driver.Node, *line, error) {
	all, l, err := d.show(ctx, name, 1)
	if err != nil || len(all) == 0 {
		return driver.Node{}, l, err
	}
	return all[0], l, nil
}

func differs(n driver.Node, seen *driver.Node) bool {
	return seen == nil || n.ID != seen.ID || n.Kind != seen.Kind || !bytes.Equal(n.Data, seen.Data)
}

// watchFirst waits until the first node of a line differs from seen. A line says whether it is watched; if it is, each swap
// that changes the first node tells the line's topic. The flag is never taken back, since a note that nobody hears costs
// next to nothing.
func (d *Driver) watchFirst(ctx context.Context, name string, seen *driver.Node) (driver.Node, error) {
	n, l, err := d.glance(ctx, name)
	if err != nil || differs(n, seen) {
		return n, err
	}
	watched := l.watched
	c, leave := d.clerk(name)
	defer leave()
	bell := driverkit.NewBell()
	stop, err := d.listen(ctx, firstTopic+name, func([]byte) { bell.Ring() })
	if err != nil {
		return driver.Node{}, err
	}
	defer stop()
	poll := d.polling()
	var calm time.Time
	for {
		if !watched && !d.mute.Load() {
			wctx, cancel := context.WithTimeout(ctx, d.RequestTimeout())
			err := c.await(wctx, c.want(watchWish()))
			cancel()
			if err != nil {
				return driver.Node{}, d.failed(ctx, err)
			}
		}
		// What changed before the listening began shows here.
		n, l, err := d.glance(ctx, name)
		if err != nil || differs(n, seen) {
			return n, err
		}
		if watched = l.watched || d.mute.Load(); !watched {
			continue
		}
		wait := time.NewTimer(poll.next())
		select {
		case <-bell:
			poll.reset()
			_ = driverkit.Sleep(ctx, time.Until(calm)) // anybody may ring
			calm = time.Now().Add(hintEvery)
		case <-wait.C:
		case <-ctx.Done():
		case <-d.life.Done():
		}
		wait.Stop()
		switch {
		case ctx.Err() != nil:
			return driver.Node{}, ctx.Err()
		case d.life.Over():
			return driver.Node{}, errClosed
		}
	}
}

// glance looks who is first. It rides out trouble for no longer than a request may take, so that the caller hears of it.
func (d *Driver) glance(ctx context.Context, name string) (driver.Node, *line, error) {
	ctx, cancel := context.WithTimeout(ctx, d.RequestTimeout())
	defer cancel()
	return d.first(ctx, name)
}

func watchWish() *wish {
	w := newWish(nil, func(d *draft, t try) error {
		switch {
		case !d.watched:
			d.watched, d.changed = true, true
		case !t.fresh: // it may have been deleted, and made anew by one who does not know
			return errLook
		}
		return nil
	})
	w.creates = true
	return w
}
