package zk

import (
	"errors"

	gozk "github.com/go-zookeeper/zk"
)

// arm sees to it that a watch is set on a node, or that it is known to be gone, and rings when that is so. It is for
// the node, not for one who waits, and goes on when that one has left. For the hand-off both are set, by requests
// that go out together.
func (s *session) arm(w *watch, handOff bool) {
	t := &s.watches
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.gone || w.denied != nil || len(w.waiters) == 0 {
		return
	}
	// Between the two halves of a departure there is nothing to ask.
	if w.data == unset && !w.marked && s.spawn(func() { s.armData(w) }) {
		w.data = asked
	}
	if w.children == unset && handOff && w.markable && s.spawn(func() { s.armChildren(w) }) {
		w.children = asked
	}
}

func (s *session) armData(w *watch) {
	t := &s.watches
	for try := 0; ; try++ {
		if s.enter(s.ctx) != nil {
			return
		}
		t.mu.Lock()
		fired, epoch := w.fired, t.epoch
		t.mu.Unlock()
		_, stat, _, err := s.conn.GetW(w.path)
		s.exit()
		if s.settle(w, &w.data, err, func() {
			w.version, w.owner = stat.Version, stat.EphemeralOwner
			// The reply may be older than the event that followed it: that watch is spent.
			if w.fired != fired {
				w.data = unset
			}
			w.epoch = 0
			if epoch == t.epoch {
				w.epoch = epoch
			}
		}) {
			return
		}
		if sleep(s.ctx, backOff(try)) != nil {
			return
		}
	}
}

func (s *session) armChildren(w *watch) {
	for try := 0; ; try++ {
		if s.enter(s.ctx) != nil {
			return
		}
		_, _, _, err := s.conn.ChildrenW(w.path)
		s.exit()
		if s.settle(w, &w.children, err, func() {}) {
			return
		}
		if sleep(s.ctx, backOff(try)) != nil {
			return
		}
	}
}

// settle takes down the answer to the request for a watch. It returns false if it has to be asked for again.
func (s *session) settle(w *watch, which *setting, err error, isSet func()) bool {
	t := &s.watches
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		*which = set
		isSet()
	case errors.Is(err, gozk.ErrNoNode):
		*which = unset
		w.gone = true
	case !passing(err):
		*which = unset
		w.denied = explain(err, "waiting for", w.path, "READ", "")
	default:
		if len(w.waiters) > 0 {
			return false
		}
		*which = unset
	}
	w.ring()
	t.drop(w)
	return true
}
