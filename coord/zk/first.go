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
	return withSession(ctx, d, func(s *session) (driver.Node, error) {
		o := &observing{session: s, line: line, dir: d.path(line), bell: driverkit.NewBell()}
		defer o.watch("")
		again := time.NewTimer(s.pollAgain())
		defer again.Stop()
		for {
			n, err := o.look(ctx, seen != nil)
			if err != nil || seen == nil || !sameNode(n, *seen) {
				return n, err
			}
			select {
			case <-o.bell:
			case <-again.C:
				again.Reset(s.pollAgain())
			case <-s.life.Done():
			case <-ctx.Done():
			}
			if err := s.stopped(ctx); err != nil {
				return driver.Node{}, err
			}
		}
	})
}

func sameNode(a, b driver.Node) bool {
	return a.ID == b.ID && a.Kind == b.Kind && bytes.Equal(a.Data, b.Data)
}

// observing is one First.
type observing struct {
	session *session
	line    string
	dir     string
	bell    driverkit.Bell
	on      *watch
}

// watch changes what is watched; "" is for nothing.
func (o *observing) watch(nodePath string) {
	if o.on != nil && o.on.path == nodePath && !o.session.watches.state(o.on).gone {
		return
	}
	if o.on != nil {
		o.session.watches.quit(o.on, o.bell)
	}
	if nodePath != "" {
		o.on = o.session.watches.join(nodePath, o.bell)
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
			s.arm(l.AsOf, wish{o.on, aspect})
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
