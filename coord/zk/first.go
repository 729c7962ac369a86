package zk

import (
	"bytes"
	"context"
	"errors"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

// First watches the first node alone: nobody ever joins ahead of it. In an empty line it watches the directory or, if
// there is none, waits for it to be made.
func (d *service) First(ctx context.Context, line string, seen *driver.Node) (driver.Node, error) {
	o := &observing{line: line, dir: d.path(line), bell: driverkit.NewBell()}
	defer o.quit()
	for {
		n, err := d.glance(ctx, o, seen != nil)
		if err != nil || seen == nil || !sameNode(n, *seen) {
			return n, err
		}
		again := time.NewTimer(driverkit.Jitter(driverkit.PollPause(max(o.session.timeout(), time.Second), 0)))
		select {
		case <-o.bell:
		case <-again.C:
		case <-o.session.life.Done():
		case <-ctx.Done():
		}
		again.Stop()
		if ctx.Err() != nil {
			return driver.Node{}, o.session.stopped(ctx)
		}
	}
}

// glance looks once. When somebody watches it gives up after a while, so that they learn that what they were told may be
// stale.
func (d *service) glance(ctx context.Context, o *observing, watches bool) (driver.Node, error) {
	if watches {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.RequestTimeout())
		defer cancel()
	}
	if o.session != nil && !o.session.life.Over() {
		if n, err := o.look(ctx, watches); !errors.Is(err, driver.ErrSessionEnded) {
			return n, err
		}
	}
	return withSession(ctx, d, func(s *session) (driver.Node, error) {
		o.quit()
		o.session = s
		return o.look(ctx, watches)
	})
}

func sameNode(a, b driver.Node) bool {
	return a.ID == b.ID && a.Kind == b.Kind && bytes.Equal(a.Data, b.Data)
}

// observing is one First.
type observing struct {
	session *session // the one used for the last look; nil: none yet
	line    string
	dir     string
	bell    driverkit.Bell
	on      *watch
}

// watch changes what is watched.
func (o *observing) watch(nodePath string) {
	if o.on == nil || o.on.path != nodePath || o.session.watches.state(o.on).gone {
		o.quit()
		o.on = o.session.watches.join(nodePath, o.bell)
	}
}

// quit stops watching.
func (o *observing) quit() {
	if o.on != nil {
		o.session.quit(o.on, o.bell)
		o.on = nil
	}
}

// look reads who is first. With wait, any change from then on rings the bell.
func (o *observing) look(ctx context.Context, wait bool) (driver.Node, error) {
	s := o.session
	for {
		l, err := s.freshChildren(ctx, o.dir)
		missing := errors.Is(err, gozk.ErrNoNode)
		if missing {
			l, err = new(wire.Listing), nil
		}
		if err == nil && !missing {
			if err = s.vet(ctx, o.dir, l.Born); errors.Is(err, gozk.ErrNoNode) {
				continue
			}
		}
		if err != nil {
			return driver.Node{}, err
		}
		all := contenders(l.Names)
		target, aspect := o.dir, ofChildren
		switch {
		case missing:
			aspect = ofComing
		case len(all) > 0:
			target, aspect = o.dir+"/"+all[0].name, ofData
		}
		if wait {
			o.watch(target)
			s.arm(l.AsOf, interest{o.on, aspect})
		}
		if len(all) == 0 {
			return driver.Node{}, nil
		}
		n, gone, err := s.show(ctx, all[0].node(o.line, o.dir, l.Born))
		if err != nil || !gone {
			return n, err
		}
	}
}
