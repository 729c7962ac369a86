package memory

import (
	"context"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/internal/planted"
)

func (s *session) Await(ctx context.Context, me driver.Node, sight driver.Sight, wait []driver.Node) ([]driver.Node, error) {
	w := s.newWaiter(me, sight, wait)
	defer s.drop(w)
	again := time.NewTicker(s.service().cfg.TTL / 2)
	defer again.Stop()
	for recheck := false; ; {
		ahead, done, err := s.check(ctx, w, recheck)
		if done || err != nil {
			return ahead, err
		}
		select {
		case <-w.wake:
			recheck = false
		case <-again.C:
			recheck = true // no watch is trusted alone
		case <-s.ctx.Done():
			return nil, driver.ErrSessionEnded
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// check sees to it that all watches are set, and finds out whether the wait is over. With recheck it asks even where
// a watch is set.
func (s *session) check(ctx context.Context, w *waiter, recheck bool) (ahead []driver.Node, done bool, err error) {
	if s.isGone(w.own) {
		return nil, true, s.removed(ctx)
	}
	found, err := s.arm(ctx, w.me.ID, w.own, s.ownWatch(), recheck)
	if err != nil {
		return nil, true, err
	}
	if !found {
		return nil, true, s.removed(ctx)
	}
	for i, n := range w.wait {
		changed := s.isChanged(w.watches[i])
		if changed && planted.Is(planted.MarkTrustedAlone) {
			return nil, true, nil
		}
		if !s.isGone(w.watches[i]) {
			found, err := s.arm(ctx, n.ID, w.watches[i], watched{data: true, life: true}, recheck)
			if err != nil {
				return nil, true, err
			}
			if found && s.kindOf(w.watches[i]) == n.Kind {
				continue
			}
		}
		return s.moveUp(ctx, w, i)
	}
	return nil, false, nil
}

// moveUp is called when the i-th of those I wait for has left or changed its kind.
func (s *session) moveUp(ctx context.Context, w *waiter, i int) (ahead []driver.Node, done bool, err error) {
	if planted.Is(planted.LineJumped) {
		return nil, true, nil
	}
	if i == len(w.wait)-1 && !w.sight.All {
		handed, err := s.handedOver(ctx, w, i)
		if err != nil {
			return nil, true, err
		}
		if handed {
			return nil, true, nil
		}
	}
	a, err := s.insist(ctx, Request{Op: "look", Line: w.me.Line, Node: w.me.ID},
		func() answer { return s.service().look(s.id, w.me.ID, w.sight) })
	if err != nil {
		return nil, true, err
	}
	if !a.found || s.ownGone(w) {
		return nil, true, s.removed(ctx)
	}
	return a.ahead, true, nil
}

// handedOver reports whether the i-th left as the holder, so that nobody is ahead.
func (s *session) handedOver(ctx context.Context, w *waiter, i int) (bool, error) {
	ahead := w.wait[i]
	if s.profile() == ZooKeeper {
		if ahead.Kind != "lock" && ahead.Kind != "W" {
			return false, nil // others write to their nodes, too
		}
		s.mu.Lock()
		marked := w.watches[i].gone && w.watches[i].changed
		s.mu.Unlock()
		if marked && s.ownGone(w) {
			return false, s.removed(ctx)
		}
		return marked, nil
	}
	a, err := s.insist(ctx, Request{Op: "handed over", Line: w.me.Line, Node: w.me.ID},
		func() answer { return s.service().handedOver(s.id, w.me.ID, ahead.ID) })
	if err == nil && !a.found && !planted.Is(planted.OwnNodeNotPolled) {
		err = s.removed(ctx)
	}
	return a.held, err
}

// removed is called when the own node is gone: with the session, or without it?
func (s *session) removed(ctx context.Context) error {
	_, err := s.insist(ctx, Request{Op: "alive"}, func() answer { return s.service().serve(s.id, func(*remote, *answer) {}) })
	if err == nil {
		err = driver.ErrRemoved
	}
	return err
}

func (s *session) ownGone(w *waiter) bool {
	return s.isGone(w.own) && !planted.Is(planted.OwnNodeNotPolled)
}

func (s *session) ownWatch() watched {
	return watched{data: true, life: s.profile() == Etcd}
}

func (s *session) isGone(w *watch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.gone
}

func (s *session) isChanged(w *watch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.changed
}

func (s *session) kindOf(w *watch) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.node.Kind
}
