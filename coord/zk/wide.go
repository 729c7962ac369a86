package zk

import (
	"context"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// wide is for how many nodes waited for it is cheaper to watch the line as a whole. Who has just become the first in
// waiting for many permits waits for all who hold: with a watch on each it would be told of each that leaves, long after
// it was let in itself. There is one such waiter in a line, so it is no herd.
const wide = 8

// awaitWide is Await for any of many. It reads the line again whenever somebody has come or gone. An amendment of data
// alone goes unnoticed: nodes ahead are shown without theirs, so it makes no difference to anybody.
func (a *awaiting) awaitWide(ctx context.Context, wait []driver.Node) ([]driver.Node, error) {
	s := a.session
	line := a.join(a.me.dir)
	defer s.watches.quit(line, a.waiter)
	for {
		s.arm(a.ownSince, wish{a.own, ofChildren})
		changes, gone := s.watches.look(line)
		connection := s.watches.connection()
		l, err := s.watchedChildren(ctx, a.me.dir)
		if err != nil {
			return nil, err
		}
		ahead, ok := a.me.ahead(l, a.sight)
		if !ok {
			if err := a.whereAmI(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if gone || !stillAhead(wait, ahead) {
			return ahead, nil
		}
		news := func() bool {
			now, gone := s.watches.look(line)
			return now != changes || gone || s.watches.connection() != connection || a.verdict() == removed
		}
		if err := a.sleep(ctx, news); err != nil {
			return nil, err
		}
	}
}

// sleep returns when there is news, or when it is time to look without any.
func (a *awaiting) sleep(ctx context.Context, news func() bool) error {
	again := time.NewTimer(a.session.lookAgain())
	defer again.Stop()
	for !news() {
		select {
		case <-a.waiter.bell:
		case <-again.C:
			return nil
		case <-a.session.done:
		case <-ctx.Done():
		}
		if err := a.session.stopped(ctx); err != nil {
			return err
		}
	}
	return nil
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
