package zk

import (
	"context"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// wide is for how many nodes waited for it is cheaper to watch the line as a whole. Who has just become the first in
// waiting for many permits waits for all who hold: a watch on each would cost the service a request each. There is one
// such waiter in a line, so it is no herd.
const wide = 8

// awaitWide is Await for any of many. It reads the line again whenever somebody has come or gone. An amendment of data
// alone goes unnoticed: nodes ahead are shown without theirs, so it makes no difference to anybody.
func (a *awaiting) awaitWide(ctx context.Context, wait []driver.Node) ([]driver.Node, error) {
	s := a.session
	line := a.join(a.me.dir)
	defer s.watches.quit(line, a.waiter)
	again := time.NewTimer(s.lookAgain())
	defer again.Stop()
	for {
		if err := s.stopped(ctx); err != nil {
			return nil, err
		}
		known, gone, denied := s.lastList(line)
		switch {
		case denied != nil:
			return nil, denied
		case gone:
			if err := a.whereAmI(ctx); err != nil {
				return nil, err
			}
			s.watches.quit(line, a.waiter)
			line = a.join(a.me.dir)
			continue
		case known != nil:
			ahead, ok := a.me.ahead(known.names, known.stat, a.sight)
			if !ok {
				if err := a.whereAmI(ctx); err != nil {
					return nil, err
				}
				return a.look(ctx)
			}
			if !stillAhead(wait, ahead) {
				return ahead, nil
			}
		default:
			s.armDir(line, false)
		}
		select {
		case <-a.waiter.bell:
		case <-again.C:
			ahead, err := a.look(ctx)
			if err != nil || !stillAhead(wait, ahead) {
				return ahead, err
			}
			again.Reset(s.lookAgain())
		case <-s.done:
		case <-ctx.Done():
		}
	}
}

// lastList is what a directory held when the watch on it was set; nil if it has changed since, or no watch is set.
func (s *session) lastList(w *watch) (l *list, gone bool, denied error) {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	if w.children != set {
		return nil, w.gone, w.denied
	}
	return w.list, w.gone, w.denied
}

// stillAhead reports whether all of some nodes are among those ahead.
func stillAhead(nodes, ahead []driver.Node) bool {
	stands := make(map[string]struct{}, len(ahead))
	for _, n := range ahead {
		stands[n.ID] = struct{}{}
	}
	for _, n := range nodes {
		if _, there := stands[n.ID]; !there {
			return false
		}
	}
	return true
}
