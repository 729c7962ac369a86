package zk

import (
	"bytes"
	"context"
	"errors"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
)

// First is described in package driver. While somebody is first a watch on that node is enough: nobody ever joins
// ahead of it. In an empty line it is the directory that is watched, or, when there is none, its coming.
func (d *Driver) First(ctx context.Context, line string, seen *driver.Node) (driver.Node, error) {
	return withSession(ctx, d, func(s *session) (driver.Node, error) {
		o := &observing{session: s, line: line, dir: d.path(line), waiter: newWaiter()}
		defer o.watch("")
		again := time.NewTimer(s.lookAgain())
		defer again.Stop()
		for {
			n, err := o.look(ctx, seen != nil)
			if err != nil || seen == nil || !sameNode(n, *seen) {
				return n, err
			}
			select {
			case <-o.waiter.bell:
			case <-again.C:
				again.Reset(s.lookAgain())
			case <-s.done:
				return driver.Node{}, s.ending()
			case <-ctx.Done():
				return driver.Node{}, s.given(ctx.Err())
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
	waiter  *waiter
	on      *watch
}

// watch exchanges what is watched; "" for nothing.
func (o *observing) watch(nodePath string) {
	if o.on != nil && o.on.path == nodePath {
		if _, gone := o.session.watches.look(o.on); !gone {
			return
		}
	}
	if o.on != nil {
		o.session.watches.quit(o.on, o.waiter)
		o.on = nil
	}
	if nodePath != "" {
		o.on = o.session.watches.join(nodePath, o.waiter)
	}
}

// look reads who is first. If it is to be waited for the next, whatever changes from then on rings.
func (o *observing) look(ctx context.Context, wait bool) (driver.Node, error) {
	s := o.session
	for {
		l, err := s.freshChildren(ctx, o.dir)
		missing := errors.Is(err, gozk.ErrNoNode)
		if missing {
			l, err = new(list), nil
		}
		if err != nil {
			return driver.Node{}, err
		}
		all := contenders(l.names)
		target, aspect := o.dir, ofChildren
		switch {
		case missing:
			aspect = ofComing
		case len(all) > 0:
			target, aspect = o.dir+"/"+all[0].name, ofData
		}
		if wait {
			o.watch(target)
			s.arm(l.asOf, wish{o.on, aspect})
		}
		if len(all) == 0 {
			return driver.Node{}, nil
		}
		n, gone, err := s.read(ctx, all[0].node(o.line, o.dir, l.born))
		if err != nil || !gone {
			return n, err
		}
	}
}
