package register

import (
	"context"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

func (d *Driver) First(ctx context.Context, name string, most int, seen *driver.Look) (driver.Look, error) {
	if seen != nil {
		return d.watchFirst(ctx, name, most, seen)
	}
	if d.life.Over() {
		return driver.Look{}, errClosed
	}
	now, _, err := d.first(ctx, name, most)
	return now, err
}

func (d *Driver) first(ctx context.Context, name string, most int) (driver.Look, watched, error) {
	all, l, err := d.show(ctx, name, most)
	if err != nil {
		return driver.Look{}, 0, err
	}
	return driver.Look{Nodes: all, At: l.seq}, l.watched, nil
}

// watchFirst waits until the first nodes of a line differ from seen. A line says whether its first node is watched, or all of
// them; if so, each swap that changes them tells a topic. The flag is never taken back, since a note that nobody hears costs
// next to nothing.
func (d *Driver) watchFirst(ctx context.Context, name string, most int, seen *driver.Look) (driver.Look, error) {
	now, flags, err := d.glance(ctx, name, most)
	if err != nil || !now.IsOf(seen.Nodes) {
		return now, err
	}
	wanted, topic := firstWatched, firstTopic
	if most > 1 {
		wanted, topic = allWatched, allTopic
	}
	c, leave := d.clerk(name)
	defer leave()
	bell := driverkit.NewBell()
	stop, err := d.listen(ctx, topic+name, func([]byte) { bell.Ring() })
	if err != nil {
		return driver.Look{}, err
	}
	defer stop()
	defer d.lookAfter(ctx, name, seen.Nodes)()
	poll := d.polling()
	poll.further = len(seen.Nodes) / 50 // a long line is much to read
	var calm time.Time
	for {
		if flags&wanted == 0 && !d.mute.Load() {
			wctx, cancel := context.WithTimeout(ctx, d.RequestTimeout())
			err := c.await(wctx, c.want(watchWish(wanted)))
			cancel()
			if err != nil {
				return driver.Look{}, d.failed(ctx, err)
			}
		}
		// What changed before the listening began shows here.
		now, flags, err = d.glance(ctx, name, most)
		if err != nil || !now.IsOf(seen.Nodes) {
			return now, err
		}
		if flags&wanted == 0 && !d.mute.Load() {
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
			return driver.Look{}, ctx.Err()
		case d.life.Over():
			return driver.Look{}, errClosed
		}
	}
}

// glance looks who is first. It rides out trouble for no longer than a request may take, so that the caller hears of it.
func (d *Driver) glance(ctx context.Context, name string, most int) (driver.Look, watched, error) {
	ctx, cancel := context.WithTimeout(ctx, d.RequestTimeout())
	defer cancel()
	return d.first(ctx, name, most)
}

func watchWish(wanted watched) *wish {
	w := newWish(nil, func(d *draft, t try) error {
		switch {
		case d.watched&wanted == 0:
			d.watched |= wanted
			d.changed = true
		case !t.fresh: // it may have been deleted, and made anew by one who does not know
			return errLook
		}
		return nil
	})
	w.creates = true
	return w
}
