package memory

import (
	"context"
	"slices"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

func (p *place) Await(ctx context.Context, wait []driver.Node) ([]driver.Node, driver.Change, error) {
	return p.newWaiter(wait).run(ctx)
}

func (p *place) Watch(ctx context.Context) error {
	_, _, err := p.newWaiter(nil).run(ctx)
	return err
}

func (w *waiter) run(ctx context.Context) ([]driver.Node, driver.Change, error) {
	defer w.drop()
	again := time.NewTicker(w.service().cfg.TTL / 2)
	defer again.Stop()
	recheck := false
	for {
		if err := w.life.Stopped(ctx); err != nil {
			return nil, driver.Looked, err
		}
		found, err := w.check(ctx, recheck)
		if err != nil {
			return nil, driver.Looked, err
		}
		if found != nil {
			return found.ahead, found.how, nil
		}
		select {
		case <-w.bell:
		case <-again.C:
			recheck = true // the watches alone are not trusted
			select {
			case <-w.bell:
			default:
			}
			continue
		case <-w.life.Done():
		case <-ctx.Done():
		}
		select { // the result must not depend on which came first, so that a seed replays a run
		case <-again.C:
			recheck = true
		default:
			recheck = false
		}
	}
}

// finding is what ends a wait.
type finding struct {
	ahead []driver.Node
	how   driver.Change
}

// check makes sure that all watches are set, and finds out whether the wait is over. With recheck it asks even where a
// watch is set.
func (w *waiter) check(ctx context.Context, recheck bool) (*finding, error) {
	if err := w.standing(ctx, recheck); err != nil {
		return nil, err
	}
	for i, n := range w.wait {
		if !w.isGone(w.watches[i]) {
			found, err := w.arm(ctx, n.ID, w.watches[i], watched{data: true, life: true}, recheck)
			if err != nil {
				return nil, err
			}
			if found && w.kindOf(w.watches[i]) == n.Kind {
				continue
			}
		}
		return w.moveUp(ctx, i)
	}
	return nil, nil
}

// moveUp is called when the i-th of those waited for has left or changed its kind.
func (w *waiter) moveUp(ctx context.Context, i int) (*finding, error) {
	if i == len(w.wait)-1 && w.isNearest(w.wait[i]) {
		handed, err := w.handedOver(ctx, i)
		if err != nil {
			return nil, err
		}
		if handed {
			return &finding{how: driver.HandedOn}, nil
		}
	}
	a, err := w.insist(ctx, Request{Op: "look", Line: w.me.Line, Node: w.me.ID},
		func() answer { return w.service().look(w.id, w.me.ID, w.sight) })
	if err != nil {
		return nil, err
	}
	if !a.found {
		return nil, w.removed(ctx)
	}
	if err := w.unlessGone(ctx); err != nil {
		return nil, err
	}
	w.saw(a.ahead)
	return &finding{a.ahead, w.how(i, a.ahead)}, nil
}

// how says what became of the i-th, from what was told and what a look has shown since. An amendment may have given it
// another ID; its token stays.
func (w *waiter) how(i int, ahead []driver.Node) driver.Change {
	n := w.wait[i]
	stands := slices.ContainsFunc(ahead, func(a driver.Node) bool { return a.Token == n.Token })
	switch {
	case stands:
		return driver.Amended
	case w.sight.All && len(w.sight.Ignore) == 0 && w.isGone(w.watches[i]):
		return driver.Gone
	}
	return driver.Looked // it may have been amended out of sight
}

func (w *waiter) isNearest(ahead driver.Node) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nearest == ahead.ID
}

// handedOver reports whether the i-th left as the holder, so that nobody is ahead.
func (w *waiter) handedOver(ctx context.Context, i int) (bool, error) {
	ahead := w.wait[i]
	if w.profile() == ZooKeeper {
		if !trustsMark(ahead.Kind) {
			return false, nil
		}
		w.mu.Lock()
		marked := w.watches[i].marked
		w.mu.Unlock()
		return marked, w.unlessGone(ctx)
	}
	a, err := w.insist(ctx, Request{Op: "handed over", Line: w.me.Line, Node: w.me.ID},
		func() answer { return w.service().handedOver(w.id, w.me.ID, ahead.ID) })
	if err == nil && !a.found {
		return false, w.removed(ctx)
	}
	if err == nil {
		err = w.unlessGone(ctx) // the news may have overtaken the answer
	}
	return a.held, err
}

// trustsMark reports whether a change of such a node, followed by its end, means that its owner left as the holder:
// nothing else writes to it.
func trustsMark(kind string) bool { return kind == rules.Lock || kind == rules.Writer }

// standing sets the watch on the own node, and finds out whether the node stands.
func (w *waiter) standing(ctx context.Context, recheck bool) error {
	for {
		if !w.isGone(w.own) {
			var found, answered bool
			arm := func(ctx context.Context) (err error) {
				found, err = w.arm(ctx, w.me.ID, w.own, w.ownWatch(), recheck)
				answered = err == nil
				return err
			}
			var err error
			if w.holds { // a holder whose question stalls must hear the news all the same
				err = w.bell.Unless(ctx, arm)
			} else {
				err = arm(ctx)
			}
			if found || err != nil || !answered {
				return err
			}
		}
		if err := w.removed(ctx); err != nil {
			return err
		}
	}
}

// plainlyRemoved reports whether a node that is gone belongs to a holder, and is not being amended by us. Then the news
// is enough: a holder must not go on believing until a stalled link answers.
func (w *waiter) plainlyRemoved() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.holds && w.amending == 0 && !w.own.renamed
}

// removed is called when the own node seems to be gone: with its session, without it, or was it amended?
func (w *waiter) removed(ctx context.Context) error {
	if w.plainlyRemoved() {
		return driverkit.Doubt(ctx, w.life, w.find)
	}
	return w.find(ctx)
}

// find looks for the own node, which may have another ID now.
func (w *waiter) find(ctx context.Context) error {
	a, err := w.insist(ctx, Request{Op: "find", Line: w.me.Line, Node: w.me.ID}, func() answer { return w.service().find(w.id, w.me.ID) })
	if err != nil {
		return err
	}
	if !a.found {
		return driver.ErrRemoved
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unshare(w.me.ID, w)
	w.me.ID = a.node.ID
	w.own = w.shared(w.me.ID, w)
	return nil
}

// unlessGone is the last check before entering: news of the own node may have come meanwhile.
func (w *waiter) unlessGone(ctx context.Context) error {
	if w.isGone(w.own) {
		return w.removed(ctx)
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
