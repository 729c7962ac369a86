package memory

import (
	"context"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/internal/doubt"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

func (s *session) Await(ctx context.Context, me driver.Node, sight driver.Sight, wait []driver.Node) ([]driver.Node, error) {
	w := s.newWaiter(me, sight, wait)
	defer s.drop(w)
	again := time.NewTicker(s.service().cfg.TTL / 2)
	defer again.Stop()
	recheck := false
	for {
		switch {
		case s.ctx.Err() != nil:
			return nil, driver.ErrSessionEnded
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		ahead, done, err := s.check(ctx, w, recheck)
		if done || err != nil {
			return ahead, err
		}
		select {
		case <-w.bell:
		case <-again.C:
			recheck = true // no watch is trusted alone
			select {
			case <-w.bell:
			default:
			}
			continue
		case <-s.ctx.Done():
		case <-ctx.Done():
		}
		select { // the same whichever of two came first, so that a seed replays a run
		case <-again.C:
			recheck = true
		default:
			recheck = false
		}
	}
}

// check sees to it that all watches are set, and finds out whether the wait is over. With recheck it asks even where
// a watch is set.
func (s *session) check(ctx context.Context, w *waiter, recheck bool) (ahead []driver.Node, done bool, err error) {
	if err := s.standing(ctx, w, recheck); err != nil {
		return nil, true, err
	}
	for i, n := range w.wait {
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
	if i == len(w.wait)-1 && s.isNearest(w.me, w.wait[i]) {
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
	if !a.found {
		return nil, true, s.removed(ctx, w)
	}
	if err := s.unlessGone(ctx, w); err != nil {
		return nil, true, err
	}
	s.saw(w.me, a.ahead)
	return a.ahead, true, nil
}

// saw remembers the nearest node ahead of me: a mark means something only if nobody can be in between.
func (s *session) saw(me driver.Node, ahead []driver.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(ahead) == 0 {
		delete(s.nearest, me.Token)
	} else {
		s.nearest[me.Token] = ahead[len(ahead)-1].ID
	}
}

func (s *session) isNearest(me, ahead driver.Node) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nearest[me.Token] == ahead.ID
}

// handedOver reports whether the i-th left as the holder, so that nobody is ahead.
func (s *session) handedOver(ctx context.Context, w *waiter, i int) (bool, error) {
	ahead := w.wait[i]
	if s.profile() == ZooKeeper {
		if !trustsMark(ahead.Kind) {
			return false, nil
		}
		s.mu.Lock()
		marked := w.watches[i].gone && w.watches[i].changed
		s.mu.Unlock()
		return marked, s.unlessGone(ctx, w)
	}
	a, err := s.insist(ctx, Request{Op: "handed over", Line: w.me.Line, Node: w.me.ID},
		func() answer { return s.service().handedOver(s.id, w.me.ID, ahead.ID) })
	if err == nil && !a.found {
		return false, s.removed(ctx, w)
	}
	if err == nil {
		err = s.unlessGone(ctx, w) // the news may have overtaken the answer
	}
	return a.held, err
}

// trustsMark reports whether a change of such a node, followed by its end, is its owner's departure: nobody writes to
// it otherwise.
func trustsMark(kind string) bool { return kind == rules.Lock || kind == rules.Writer }

// standing sets the watch on the own node, and finds out whether it stands.
func (s *session) standing(ctx context.Context, w *waiter, recheck bool) error {
	for {
		if !s.isGone(w.own) {
			var found, answered bool
			arm := func(ctx context.Context) (err error) {
				found, err = s.arm(ctx, w.me.ID, w.own, s.ownWatch(), recheck)
				answered = err == nil
				return err
			}
			var err error
			if len(w.wait) == 0 { // a holder whose question stalls must hear the news all the same
				err = w.bell.Unless(ctx, arm)
			} else {
				err = arm(ctx)
			}
			if found || err != nil || !answered {
				return err
			}
		}
		if err := s.removed(ctx, w); err != nil {
			return err
		}
	}
}

// plainlyRemoved reports whether a node that is gone belongs to a holder, and nobody of ours amends it. Then the news
// is enough: a holder must not go on believing until a stalled link answers.
func (s *session) plainlyRemoved(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(w.wait) == 0 && s.amending[origin(w.me.ID)] == 0 && !w.own.renamed
}

// removed is called when the own node is gone, it seems: with the session, without it, or was it amended?
func (s *session) removed(ctx context.Context, w *waiter) error {
	find := func(ctx context.Context) error { return s.find(ctx, w) }
	if s.plainlyRemoved(w) {
		return doubt.Ask(ctx, func() bool { return s.ctx.Err() != nil }, find)
	}
	return find(ctx)
}

// find looks for the own node, which may go by another name now.
func (s *session) find(ctx context.Context, w *waiter) error {
	a, err := s.insist(ctx, Request{Op: "find", Line: w.me.Line, Node: w.me.ID}, func() answer { return s.service().find(s.id, w.me.ID) })
	if err != nil {
		return err
	}
	if !a.found {
		return driver.ErrRemoved
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unshare(w.me.ID, w)
	w.me.ID = a.node.ID
	w.own = s.shared(w.me.ID, w)
	return nil
}

// unlessGone is asked last before entering: news of the own node may have come meanwhile.
func (s *session) unlessGone(ctx context.Context, w *waiter) error {
	if s.isGone(w.own) {
		return s.removed(ctx, w)
	}
	return nil
}

func (s *session) ownWatch() watched {
	return watched{data: true, life: s.profile() == Etcd}
}

func (s *session) isGone(w *watch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.gone
}

func (s *session) kindOf(w *watch) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.node.Kind
}
