package memory

import (
	"context"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// watch is what a session hears of a node. All who are interested in the node share it; when the last has gone it is
// forgotten.
type watch struct {
	waiters map[*waiter]struct{}
	armed   watched // which events will come
	node    stored  // as read when the watch was set last
	changed int64   // the last change that was told, if nobody has read since then that the node still stands
	gone    bool
	marked  bool // the change and the end were one: its owner left as the holder
	renamed bool // by an amendment of ours: the end of this ID is not the end of the node
}

// waiter is one call of Await, or of Watch.
type waiter struct {
	*place
	me      driver.Node
	holds   bool // it waits for nobody
	wait    []driver.Node
	own     *watch
	watches []*watch // of wait
	bell    driverkit.Bell
}

func (p *place) newWaiter(wait []driver.Node) *waiter {
	w := &waiter{place: p, me: p.Node(), holds: len(wait) == 0, wait: wait, bell: driverkit.NewBell()}
	p.mu.Lock()
	defer p.mu.Unlock()
	w.own = p.shared(w.me.ID, w)
	for _, n := range wait {
		w.watches = append(w.watches, p.shared(n.ID, w))
	}
	return w
}

func (s *session) shared(id string, w *waiter) *watch {
	shared := s.watches[id]
	if shared == nil {
		shared = &watch{waiters: make(map[*waiter]struct{})}
		s.watches[id] = shared
	}
	shared.waiters[w] = struct{}{}
	return shared
}

func (w *waiter) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unshare(w.me.ID, w)
	for _, n := range w.wait {
		w.unshare(n.ID, w)
	}
}

func (s *session) unshare(id string, w *waiter) {
	shared := s.watches[id]
	if shared == nil {
		return
	}
	delete(shared.waiters, w)
	if len(shared.waiters) == 0 {
		delete(s.watches, id)
	}
}

// hear takes in an event.
func (s *session) hear(e event) {
	switch e.what {
	case sessionExpired:
		if s.profile() == ZooKeeper {
			s.life.End(errExpired)
		}
		return
	case reconnected:
		s.disarmAll()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	shared := s.watches[e.node]
	if shared == nil {
		return
	}
	switch e.what {
	case nodeChanged:
		shared.changed = e.rev
		shared.armed.data = false
	case nodeGone:
		shared.gone = true
		shared.marked = shared.changed == e.rev
		shared.armed = watched{}
	}
	shared.wakeAll()
}

// disarmAll forgets what was armed and heard: after a reconnect, what happened meanwhile may never be told.
func (s *session) disarmAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, shared := range s.watches {
		shared.armed = watched{}
		shared.changed, shared.marked = 0, false
		shared.wakeAll()
	}
}

func (w *watch) wakeAll() {
	for waiter := range w.waiters {
		waiter.bell.Ring()
	}
}

// arm sets those watches of want that are not set, which also reads the node. It reports whether the node stands.
func (s *session) arm(ctx context.Context, id string, shared *watch, want watched, again bool) (bool, error) {
	s.mu.Lock()
	missing := watched{want.data && !shared.armed.data, want.life && !shared.armed.life}
	s.mu.Unlock()
	if again {
		missing = want
	}
	if s.profile() == ZooKeeper && missing.data && missing.life { // two requests there
		if found, err := s.armNow(ctx, id, shared, watched{data: true}); err != nil || !found {
			return found, err
		}
		missing.data = false
	}
	if missing == (watched{}) {
		return true, nil
	}
	return s.armNow(ctx, id, shared, missing)
}

func (s *session) armNow(ctx context.Context, id string, shared *watch, missing watched) (bool, error) {
	a, err := s.insist(ctx, Request{Op: "watch", Node: id}, func() answer { return s.service().watch(s.id, id, missing) })
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !a.found {
		return false, nil
	}
	shared.node = a.node
	if shared.gone {
		return false, nil
	}
	shared.armed.data = shared.armed.data || missing.data
	shared.armed.life = shared.armed.life || missing.life
	if missing.data {
		shared.changed = 0 // it changed, and stands
	}
	return true, nil
}
