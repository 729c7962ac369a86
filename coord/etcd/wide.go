package etcd

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
)

// wide is for how many nodes waited for it is cheaper to listen to the line as a whole. Who has just become the first in
// waiting for many permits waits for all who hold: a watch on each would cost the service a request each. There is one
// such waiter in a line, so it is no herd.
const wide = 8

// runWide waits for any of many. The own key is in the line as well, so news of its removal comes the same way.
func (a *awaiting) runWide(ctx context.Context, wait []driver.Node) ([]driver.Node, error) {
	watched := make(map[string]bool, len(wait))
	for _, n := range wait {
		if key, _, ok := parseID(n.ID); ok {
			watched[key] = true
		}
	}
	prefix := a.s.d.names.line(a.view.line)
	line := a.s.watches.add(span{prefix, clientv3.GetPrefixRangeEnd(prefix)}, a.bell)
	defer a.s.watches.drop(line)
	poll := time.NewTimer(a.s.pollPause())
	defer poll.Stop()
	armed, since := int64(0), int64(0) // the watch that was open when the line was read, and at which revision
	for {
		news := line.take()
		if news.refused != nil {
			return nil, news.refused
		}
		for _, ev := range news.events {
			switch {
			case armed == 0 || ev.rev <= since:
			case ev.deleted && ev.key == a.own.key:
				return nil, a.s.removed(ctx, ev.rev)
			case watched[ev.key]:
				return a.look(ctx, ev.rev)
			}
		}
		look := news.opened > 0 && news.watch != armed
		if !look {
			select {
			case <-a.bell:
				continue
			case <-poll.C:
				poll.Reset(a.s.pollPause())
			case <-ctx.Done():
				return nil, unanswered(ctx, "await", nil)
			}
		}
		ahead, stands, at, err := a.s.look(ctx, a.view, a.own, 0)
		switch {
		case err != nil:
			return nil, err
		case !stands:
			return nil, a.s.removed(ctx, at)
		case a.changed(wait, ahead):
			return ahead, nil
		}
		if look {
			armed, since = news.watch, at
		}
	}
}

// changed reports whether one of wait is not ahead any more, or was amended since the caller looked.
func (a *awaiting) changed(wait, ahead []driver.Node) bool {
	stands := make(map[string]struct{}, len(ahead))
	for _, n := range ahead {
		stands[n.ID] = struct{}{}
	}
	amended := a.own.saw(a.view.sight).amended
	for _, n := range wait {
		if _, there := stands[n.ID]; !there || amended[n.ID] != a.seen.amended[n.ID] {
			return true
		}
	}
	return false
}
