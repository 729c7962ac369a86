package zk

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

// Await sets watches on the waiter's own node and on those it waits for, and sleeps. When one of those has gone it looks at
// the line again, unless the departure already says all that matters.
func (p *place) Await(ctx context.Context, wait []driver.Node) ([]driver.Node, error) {
	a := p.awaiting()
	defer a.quit()
	if len(wait) > rules.Few {
		return a.awaitWide(ctx, wait)
	}
	for i := range wait {
		w := a.join(wait[i].ID)
		a.others = append(a.others, a.other(w))
	}
	a.watchSecond()
	return a.sleep(ctx)
}

// Watch is an Await with nobody ahead.
func (p *place) Watch(ctx context.Context) error {
	a := p.awaiting()
	defer a.quit()
	a.holds = true
	_, err := a.sleep(ctx)
	return err
}

// awaiting is one Await or Watch.
type awaiting struct {
	*place
	holds    bool  // it waits for nobody
	since    int64 // what happens ahead after this transaction is news
	ownSince int64 // and what happens to its own node after this one
	bell     driverkit.Bell
	own      *watch
	others   []other
	second   *other // on the one ahead of the one waited for; nil: there is no need
	unread   bool   // as far as we know, the node waited for may not be read
}

// other is a node waited for, and how often it had changed before.
type other struct {
	*watch
	changes int
}

// hasMoved needs the lock of the watches.
func (o *other) hasMoved() bool { return o.gone || o.changes != o.watch.changes }

func (p *place) awaiting() *awaiting {
	a := &awaiting{place: p, bell: driverkit.NewBell()}
	a.own = a.session.watches.joinOwn(p.presentPath(), a.bell)
	a.since, a.ownSince = p.seen()
	return a
}

func (a *awaiting) join(nodePath string) *watch { return a.session.watches.join(nodePath, a.bell) }

func (a *awaiting) other(w *watch) other { return other{w, a.session.watches.state(w).changes} }

func (a *awaiting) quit() {
	a.session.quit(a.own, a.bell)
	for _, w := range a.others {
		a.session.quit(w.watch, a.bell)
	}
	if a.second != nil {
		a.session.quit(a.second.watch, a.bell)
	}
}

// watchSecond also watches the second one ahead. When that leaves, the one right ahead probably gets its turn, which leaves
// time to see whether others are ahead. So when that turn ends, we already know. In a line of one session there is no need:
// see letsIn.
func (a *awaiting) watchSecond() {
	t := &a.session.watches
	if a.second != nil {
		a.session.quit(a.second.watch, a.bell)
		a.second = nil
	}
	if len(a.others) != 1 || t.isOurs(a.others[0].watch) {
		return
	}
	if nodePath := a.aheadOf(a.others[0].path); nodePath != "" {
		second := a.other(a.join(nodePath))
		a.second = &second
	}
}

// sleep waits for news. It does not rely on the watches alone: once in a while it polls.
func (a *awaiting) sleep(ctx context.Context) ([]driver.Node, error) {
	s := a.session
	again := time.NewTimer(a.firstPoll())
	defer again.Stop()
	for {
		if err := s.stopped(ctx); err != nil {
			return nil, err
		}
		switch what, of := a.news(); what {
		case ownGone:
			if err := a.whereAmI(ctx); err != nil {
				return nil, err
			}
			continue
		case myTurn:
			return nil, nil
		case moved:
			return a.list(ctx)
		case nearer:
			ahead, err := a.lookEarly(ctx)
			if err != nil {
				return nil, err
			}
			if !stillAhead([]driver.Node{{ID: of.path}}, ahead) {
				return ahead, nil
			}
			continue
		}
		a.arm()
		select {
		case <-a.bell:
		case <-again.C:
			// A waiter must hear the news even while its poll stalls.
			if err := a.bell.Unless(ctx, a.poll); err != nil {
				return nil, err
			}
			again.Reset(a.nextPoll())
		case <-s.life.Done():
		case <-ctx.Done():
		}
	}
}

// pollAgain is how long to wait before looking when no watch has fired.
func (s *session) pollAgain() time.Duration {
	return driverkit.Jitter(driverkit.PollPause(max(s.timeout(), time.Second), int(s.roster.standing.Load())))
}

// firstPoll is how long to wait the first time. Newer servers do not tell us that a node has gone if we may not read it. So
// unless everybody may do everything, we find out early whether that is the case.
func (a *awaiting) firstPoll() time.Duration {
	a.unread = !a.session.service.openToAll
	return a.nextPoll()
}

func (a *awaiting) nextPoll() time.Duration {
	if a.unread {
		return min(driverkit.Jitter(time.Second), a.session.pollAgain())
	}
	return a.session.pollAgain()
}

// arm asks to be told what matters: that our own node goes, and that the others go or change.
func (a *awaiting) arm() {
	interests := make([]interest, 1, 3)
	interests[0] = interest{a.own, ofChildren}
	if a.ownSince > a.since {
		a.session.arm(a.ownSince, interests...)
		interests = interests[:0]
	}
	for _, w := range a.others {
		interests = append(interests, interest{w.watch, ofData})
	}
	if a.second != nil {
		interests = append(interests, interest{a.second.watch, ofData})
	}
	a.session.arm(a.since, interests...)
}

type news int

const (
	nothing news = iota
	ownGone      // my own node is not where it was
	myTurn       // the node right ahead left, and nobody else is ahead
	moved        // somebody left, or was amended
	nearer       // the second one ahead left, or was amended
)

// news is what the watches have said so far, and about which node. Our own node comes first: an answer that lets me in must
// not overtake the news of my own removal, which the service reported earlier.
func (a *awaiting) news() (news, *watch) {
	t := &a.session.watches
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.own.gone {
		return ownGone, a.own
	}
	if n := len(a.others) - 1; n >= 0 {
		last := a.others[n].watch
		if last.left && a.own.settings[ofChildren].set && a.letsIn(last.path, last.handsOver) {
			return myTurn, last
		}
	}
	for _, w := range a.others {
		if w.hasMoved() {
			return moved, w.watch
		}
	}
	if a.second != nil && a.second.hasMoved() && !a.others[0].ours {
		return nearer, a.others[0].watch
	}
	return nothing, nil
}

// lookEarly reads the line although the one right ahead has not moved.
func (a *awaiting) lookEarly(ctx context.Context) ([]driver.Node, error) {
	ahead, err := a.list(ctx)
	if err == nil {
		a.since, _ = a.seen()
		a.watchSecond()
	}
	return ahead, err
}

// list reads the line until our own node is in it, or has surely gone.
func (a *awaiting) list(ctx context.Context) ([]driver.Node, error) {
	for {
		l, err := a.session.children(ctx, a.dir)
		if errors.Is(err, gozk.ErrNoNode) { // the line has gone, and our own node before it
			l, err = new(wire.Listing), nil
		}
		if err != nil {
			return nil, err
		}
		if ahead, _, found := a.pick(l); found {
			return ahead, nil
		}
		if err := a.whereAmI(ctx); err != nil {
			return nil, err
		}
	}
}

// whereAmI finds our own node again after it seemed to have gone: it may have been amended, or the session may have ended
// while its connection is still open. It returns ErrRemoved only if the service says, on a live session, that the node is
// nowhere.
func (a *awaiting) whereAmI(ctx context.Context) error {
	paths := a.allPaths()
	find := func(ctx context.Context) error { return a.findAt(ctx, paths) }
	if a.holds && len(paths) == 1 && paths[0] == a.own.path { // and it is not being amended
		return a.doubt(ctx, find)
	}
	return find(ctx)
}

// doubt asks for a short while. If the connection breaks meanwhile, it waits for no other one: the server hangs up right
// after the news if the session has ended, and only the next connection would say so for certain.
func (a *awaiting) doubt(ctx context.Context, find func(context.Context) error) error {
	s := a.session
	hungUp := s.usable.Load().Gone()
	return driverkit.Doubt(ctx, s.life, func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		go func() {
			select {
			case <-hungUp:
				cancel(errHungUp)
			case <-ctx.Done():
			}
		}()
		err := find(ctx)
		if err != nil && !errors.Is(err, driver.ErrRemoved) && context.Cause(ctx) == errHungUp {
			return errHungUp
		}
		return err
	})
}

// errHungUp says that the server hung up after it had said that a node was gone. That is how a session ends.
var errHungUp = fmt.Errorf("%w: its node has gone, and the server has hung up", driver.ErrSessionEnded)

// findAt tries the older path first: an amendment goes from it to the newer one, so this order misses nothing.
func (a *awaiting) findAt(ctx context.Context, paths []string) error {
	s := a.session
	for _, p := range paths {
		there, err := s.exists(ctx, p)
		if err != nil {
			return err
		}
		if there {
			s.quit(a.own, a.bell)
			a.own, a.ownSince = s.watches.joinOwn(p, a.bell), s.zxids.Load()
			return nil
		}
	}
	a.gone()
	return driver.ErrRemoved
}

// poll looks without having been told: at our own node, and at the one waited for, where it also finds out whether we may
// read it. If several are waited for, it looks at the line instead of at them.
func (a *awaiting) poll(ctx context.Context) error {
	s := a.session
	switch len(a.others) {
	case 0:
	case 1:
		nodePath := a.others[0].path
		_, gone, err := s.read(ctx, &driver.Node{ID: nodePath})
		if a.unread = errors.Is(err, driver.ErrDenied); a.unread {
			var there bool
			there, err = s.exists(ctx, nodePath)
			gone = !there
		}
		if err != nil {
			return err
		}
		if gone {
			s.missed(a.others[0].watch)
		}
	default:
		l, err := s.children(ctx, a.dir)
		if errors.Is(err, gozk.ErrNoNode) {
			l, err = new(wire.Listing), nil
		}
		if err != nil {
			return err
		}
		stands := make(map[string]bool, len(l.Names))
		for _, name := range l.Names {
			stands[name] = true
		}
		for _, w := range a.others {
			if !stands[path.Base(w.path)] {
				s.missed(w.watch)
			}
		}
	}
	there, err := s.exists(ctx, a.own.path)
	if err == nil && !there {
		s.missed(a.own)
	}
	return err
}

// missed records a node that has gone without a watch firing.
func (s *session) missed(w *watch) {
	if s.watches.notice(w) {
		s.service.log.Debug("zk: a node had gone unnoticed", "node", w.path)
	}
}

// awaitWide is Await for many nodes. The first waiter for many permits waits for all holders: with a watch on each, it
// would be told of each one that leaves, long after it was itself let in. So it watches the line as a whole, and reads it
// again whenever somebody has come or gone. A line has only one such waiter, so there is no herd. An amendment of data
// alone goes unnoticed, which does no harm: nodes ahead are shown without data.
func (a *awaiting) awaitWide(ctx context.Context, wait []driver.Node) ([]driver.Node, error) {
	t := &a.session.watches
	line := a.join(a.dir)
	defer a.session.quit(line, a.bell)
	for {
		a.session.arm(a.ownSince, interest{a.own, ofChildren})
		before := t.state(line)
		l, err := a.session.watchedChildren(ctx, a.dir)
		if errors.Is(err, gozk.ErrNoNode) {
			l, err = new(wire.Listing), nil
		}
		if err != nil {
			return nil, err
		}
		ahead, _, found := a.pick(l)
		if found && (before.gone || !stillAhead(wait, ahead)) {
			return ahead, nil
		}
		if found {
			err = a.sleepUnless(ctx, func() bool { return t.state(line) != before || t.state(a.own).gone })
		} else {
			err = a.whereAmI(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
}

// sleepUnless returns when there is news, or when it is time to look anyway.
func (a *awaiting) sleepUnless(ctx context.Context, news func() bool) error {
	again := time.NewTimer(a.session.pollAgain())
	defer again.Stop()
	for !news() {
		select {
		case <-a.bell:
		case <-again.C:
			return nil
		case <-a.session.life.Done():
		case <-ctx.Done():
		}
		if err := a.session.stopped(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stillAhead reports whether all the nodes are among those ahead.
func stillAhead(nodes, ahead []driver.Node) bool {
	stands := make(map[string]bool, len(ahead))
	for _, n := range ahead {
		stands[n.ID] = true
	}
	return !slices.ContainsFunc(nodes, func(n driver.Node) bool { return !stands[n.ID] })
}
