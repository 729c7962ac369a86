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
	if o.on != nil {
		o.session.watches.quit(o.on, o.waiter)
		o.on = nil
	}
	if nodePath != "" {
		o.on = o.session.watches.join(nodePath, o.waiter)
	}
}

// look reads who is first. If it is to be waited for the next, a watch has been set before the reading.
func (o *observing) look(ctx context.Context, wait bool) (driver.Node, error) {
	s := o.session
	for {
		names, stat, err := s.freshChildren(ctx, o.dir)
		if err != nil && !errors.Is(err, gozk.ErrNoNode) {
			return driver.Node{}, err
		}
		all := contenders(names)
		target := o.dir
		if len(all) > 0 {
			target = o.dir + "/" + all[0].name
		}
		if wait && (o.on == nil || o.on.path != target || !s.isSet(o.on)) {
			o.watch(target)
			if err := s.setWatch(ctx, o.on, o.waiter, len(all) == 0); err != nil {
				return driver.Node{}, err
			}
			continue // what was read before the watch was set may be old
		}
		if len(all) == 0 {
			return driver.Node{}, nil
		}
		n, gone, err := s.read(ctx, all[0].node(o.line, o.dir, stat))
		if err != nil || !gone {
			return n, err
		}
	}
}

// isSet reports whether news of a node, or of a directory's children, will ring.
func (s *session) isSet(w *watch) bool {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	return !w.gone && (w.data == set || w.children == set)
}

// setWatch returns when a watch is set on a node, or on the children of a directory that may not exist yet.
func (s *session) setWatch(ctx context.Context, w *watch, by *waiter, directory bool) error {
	for {
		s.watches.mu.Lock()
		gone, denied := w.gone, w.denied
		s.watches.mu.Unlock()
		if denied != nil {
			return denied
		}
		if gone || s.isSet(w) {
			return nil
		}
		if directory {
			s.armDir(w, true)
		} else {
			s.arm(w, false)
		}
		select {
		case <-by.bell:
		case <-s.done:
			return s.ending()
		case <-ctx.Done():
			return s.given(ctx.Err())
		}
	}
}

// armDir sets a watch on the children of a directory, or, if there may be none, on its coming.
func (s *session) armDir(w *watch, mayMiss bool) {
	t := &s.watches
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.children != unset || w.gone || w.denied != nil || len(w.waiters) == 0 {
		return
	}
	if !s.spawn(func() {
		for try := 0; ; try++ {
			if s.enter(s.ctx) != nil {
				return
			}
			t.mu.Lock()
			fired := w.fired
			t.mu.Unlock()
			there, err := true, error(nil)
			if mayMiss {
				there, _, _, err = s.conn.ExistsW(w.path)
			}
			var l *list
			if err == nil && there {
				if names, stat, _, e := s.conn.ChildrenW(w.path); e == nil {
					l = &list{names, stat}
				} else {
					err = e
				}
			}
			s.exit()
			if mayMiss && errors.Is(err, gozk.ErrNoNode) { // it went between the two
				continue
			}
			if s.settle(w, &w.children, err, func() {
				w.list = l
				if w.fired != fired {
					w.children = unset
				}
			}) || sleep(s.ctx, backOff(try)) != nil {
				return
			}
		}
	}) {
		return
	}
	w.children = asked
}
