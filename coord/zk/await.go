package zk

import (
	"context"
	"math/rand/v2"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/internal/doubt"
)

// Await is described in package driver.
//
// It sets watches on the own node and on those waited for, and sleeps. When one of those has gone it looks at the line
// again, unless its departure said it all. No watch is trusted alone: once in a while it asks.
func (s *session) Await(ctx context.Context, me driver.Node, sight driver.Sight, wait []driver.Node) ([]driver.Node, error) {
	a := &awaiting{session: s, me: s.standingAs(&me), sight: sight, holds: len(wait) == 0, waiter: newWaiter()}
	a.own = a.join(a.me.present())
	defer a.quit()
	a.since, a.ownSince = a.me.seen()
	if a.since == 0 { // a look that is known to the caller alone
		ahead, err := a.look(ctx)
		if err != nil || !stillAhead(wait, ahead) {
			return ahead, err
		}
		a.since, a.ownSince = a.me.seen()
	}
	if len(wait) > wide {
		return a.awaitWide(ctx, wait)
	}
	for i := range wait {
		w := a.join(wait[i].ID)
		changes, _ := s.watches.look(w)
		a.others = append(a.others, other{w, changes})
	}
	again := time.NewTimer(a.firstAsk())
	defer again.Stop()
	for {
		if err := s.stopped(ctx); err != nil {
			return nil, err
		}
		switch a.verdict() {
		case removed:
			if err := a.whereAmI(ctx); err != nil {
				return nil, err
			}
			continue
		case myTurn:
			return nil, nil
		case moved:
			return a.look(ctx)
		}
		a.arm()
		select {
		case <-a.waiter.bell:
		case <-again.C:
			// Somebody whose question stalls must hear the news all the same.
			if err := a.waiter.bell.Unless(ctx, a.ask); err != nil {
				return nil, err
			}
			again.Reset(s.lookAgain())
		case <-s.done:
		case <-ctx.Done():
		}
	}
}

// stopped is why nothing is to be waited for any more; nil: it goes on.
func (s *session) stopped(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return s.given(err)
	}
	if s.over() {
		return s.ending()
	}
	return nil
}

// lookAgain is when to ask although no watch has fired.
func (s *session) lookAgain() time.Duration {
	d := max(s.timeout(), time.Second)
	return d + rand.N(d/2)
}

// firstAsk is when to ask for the first time. Newer servers do not tell those who may not read a node that it has gone.
// That is soon to be found out where not everybody may do everything.
func (a *awaiting) firstAsk() time.Duration {
	if a.session.driver.openToAll {
		return a.session.lookAgain()
	}
	return min(time.Second, a.session.lookAgain())
}

type awaiting struct {
	session  *session
	me       *standing
	sight    driver.Sight
	holds    bool  // it waits for nobody: it watches over its node
	since    int64 // what happened ahead after this transaction is news
	ownSince int64 // and what happened to the own node after this one
	waiter   *waiter
	own      *watch
	others   []other
}

// other is one waited for, and how often it had changed before.
type other struct {
	*watch
	changes int
}

type verdict int

const (
	nothing verdict = iota
	removed         // my own node is not where it was
	myTurn          // the node ahead left as the holder
	moved           // somebody left, or was amended
)

func (a *awaiting) join(nodePath string) *watch {
	return a.session.watches.join(nodePath, a.waiter)
}

func (a *awaiting) quit() {
	a.session.watches.quit(a.own, a.waiter)
	for _, w := range a.others {
		a.session.watches.quit(w.watch, a.waiter)
	}
}

// arm asks to be told of what matters: of the own node that it goes, of the others that they change, too.
func (a *awaiting) arm() {
	wishes := make([]wish, 1, 3)
	wishes[0] = wish{a.own, ofChildren}
	if a.ownSince > a.since {
		a.session.arm(a.ownSince, wishes...)
		wishes = wishes[:0]
	}
	for _, w := range a.others {
		wishes = append(wishes, wish{w.watch, ofData})
		if w.markable {
			wishes = append(wishes, wish{w.watch, ofChildren})
		}
	}
	a.session.arm(a.since, wishes...)
}

// verdict says what the watches know by now. The own node comes first: an answer that lets me in must not overtake the
// news of my own removal, which the service told before.
func (a *awaiting) verdict() verdict {
	t := &a.session.watches
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.own.gone {
		return removed
	}
	if n := len(a.others) - 1; n >= 0 && a.others[n].left && a.own.settings[ofChildren].set && a.me.rightBehind(a.others[n].path) {
		return myTurn
	}
	for _, w := range a.others {
		if w.gone || w.changes != w.watch.changes {
			return moved
		}
	}
	return nothing
}

// look reads the line.
func (a *awaiting) look(ctx context.Context) ([]driver.Node, error) {
	s := a.session
	for {
		l, err := s.children(ctx, a.me.dir)
		if err != nil {
			return nil, err
		}
		if ahead, ok := a.me.ahead(l, a.sight); ok {
			return ahead, nil
		}
		if err := a.whereAmI(ctx); err != nil {
			return nil, err
		}
	}
}

// whereAmI finds the own node again after it seemed to have gone: it may have been amended, or the session has ended
// and its connection not yet been closed. It returns ErrRemoved only if the service says on a live session that
// the node is nowhere. An amendment goes from the older path to the newer, so that order misses nothing.
func (a *awaiting) whereAmI(ctx context.Context) error {
	paths := a.me.paths()
	find := func(ctx context.Context) error { return a.findAt(ctx, paths) }
	if a.holds && len(paths) == 1 && paths[0] == a.own.path { // and it is not being amended
		return doubt.Ask(ctx, a.session.over, find)
	}
	return find(ctx)
}

func (a *awaiting) findAt(ctx context.Context, paths []string) error {
	s := a.session
	for _, p := range paths {
		there, err := s.exists(ctx, p)
		if err != nil {
			return err
		}
		if there {
			s.watches.quit(a.own, a.waiter)
			a.own, a.ownSince = a.join(p), s.zxids.last()
			return nil
		}
	}
	return driver.ErrRemoved
}

// ask is the look without being told: a point read of the own node and of the one waited for, which also tells whether
// that may be read at all, or of the line if these are several.
func (a *awaiting) ask(ctx context.Context) error {
	s := a.session
	switch len(a.others) {
	case 0:
	case 1:
		_, gone, err := s.read(ctx, driver.Node{ID: a.others[0].path})
		if err != nil {
			return err
		}
		if gone {
			a.missed(a.others[0].watch)
		}
	default:
		l, err := s.children(ctx, a.me.dir)
		if err != nil {
			return err
		}
		stands := make(map[string]bool, len(l.names))
		for _, n := range l.names {
			stands[a.me.dir+"/"+n] = true
		}
		for _, w := range a.others {
			if !stands[w.path] {
				a.missed(w.watch)
			}
		}
	}
	there, err := s.exists(ctx, a.own.path)
	if err == nil && !there {
		a.missed(a.own)
	}
	return err
}

// missed is for a node that has gone without a watch telling.
func (a *awaiting) missed(w *watch) {
	t := &a.session.watches
	t.mu.Lock()
	defer t.mu.Unlock()
	if !w.gone {
		a.session.driver.log.Debug("a node had gone unnoticed", "node", w.path)
		w.gone = true
		w.ring()
	}
}

func (s *session) exists(ctx context.Context, nodePath string) (bool, error) {
	return persist(ctx, s, func() (bool, error) {
		return ask(ctx, s, func(c *gozk.Conn) (bool, error) {
			there, _, err := c.Exists(nodePath)
			return there, err
		})
	})
}
