package etcd

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

const (
	// watchOwnAfter is how long a contender stands in line before it also listens to its own key. A waiter that is let in has
	// read its own key anyway; the watch is for those that are removed while they wait.
	watchOwnAfter = 25 * time.Millisecond

	// pollEvery is about how often a waiter polls, unless there are many.
	pollEvery = 20 * time.Second
)

func (s *session) pollPause() time.Duration {
	return driverkit.Jitter(driverkit.PollPause(pollEvery, s.watches.size()))
}

// Await does not ask whether a node that has left had its turn: only its owner knows, and anyone who may write to the line
// could claim that it had.
func (p *place) Await(ctx context.Context, wait []driver.Node) ([]driver.Node, error) {
	ctx, unbind := p.life.Bind(ctx)
	defer unbind()
	var found *finding
	var err error
	if len(wait) > rules.Few {
		found, err = p.awaitAny(ctx, wait)
	} else {
		found, err = p.awaitFew(ctx, wait)
	}
	if err != nil {
		return nil, p.life.Verdict(err)
	}
	return found.ahead, nil
}

// finding is what ends the waiting.
type finding struct {
	ahead []driver.Node
}

// awaiting is an Await that listens to each node it waits for.
type awaiting struct {
	*place
	seen  lastLook // what the caller saw
	bell  driverkit.Bell
	ahead []*neighbour // in order
	self  *ear         // listens to its own key; nil: not yet
}

// neighbour is a node that is waited for.
type neighbour struct {
	*ear
	key     string
	created int64
	known   int64 // its mod revision when the caller looked
	nearest bool  // it was the nearest in sight, when the caller looked
	only    bool  // and nobody else was in sight
}

func (p *place) awaitFew(ctx context.Context, wait []driver.Node) (*finding, error) {
	a := &awaiting{place: p, seen: p.lastSeen(), bell: driverkit.NewBell()}
	for i := range wait {
		a.ahead = append(a.ahead, a.listenTo(&wait[i], i == len(wait)-1))
	}
	defer a.end()
	return a.run(ctx)
}

func (a *awaiting) listenTo(n *driver.Node, last bool) *neighbour {
	key := keyOf(n)
	nearest := last && n.ID == a.seen.nearest
	return &neighbour{
		ear:     a.watches.listen(span{key: key}, a.bell, 0),
		key:     key,
		created: int64(n.Token),
		known:   max(a.seen.amended[n.ID], int64(n.Token)),
		nearest: nearest,
		only:    nearest && a.seen.only,
	}
}

// clears reports whether nobody is in sight once that node has gone, however it went: it was the nearest, and those ahead
// of it have gone, or there were none. When one process drains a line, each hand-off works like this, without a look.
func (a *awaiting) clears(b *neighbour) bool {
	return b.only || b.nearest && a.ours.isFirst(b.created, a.seen.era)
}

func (a *awaiting) end() {
	for _, b := range a.ahead {
		b.end()
	}
	if a.self != nil {
		a.self.end()
	}
}

func (a *awaiting) run(ctx context.Context) (*finding, error) {
	own := time.NewTimer(watchOwnAfter)
	defer own.Stop()
	if time.Since(a.joined) > watchOwnAfter { // it has waited before, and news of its removal may come during a look
		own.Stop()
		a.listenToItself()
	}
	poll := time.NewTimer(a.pollPause())
	defer poll.Stop()
	for {
		found, err := a.hear(ctx)
		if found != nil && err == nil && a.self == nil && time.Since(a.joined) > watchOwnAfter { // looking took long
			a.listenToItself()
			return a.lookAgain(ctx, 0)
		}
		if found != nil || err != nil {
			return found, err
		}
		select {
		case <-a.bell:
		case <-own.C:
			a.listenToItself()
		case <-poll.C:
			poll.Reset(a.pollPause())
			if found, err := a.readAhead(ctx, a.ahead); found != nil || err != nil {
				return found, err
			}
		case <-ctx.Done():
			return nil, failed("await", unanswered(ctx, nil))
		}
	}
}

func (a *awaiting) listenToItself() {
	a.self = a.watches.listen(span{key: a.key}, a.bell, a.created)
}

// hear handles the news. It returns nil if nothing ends the waiting.
func (a *awaiting) hear(ctx context.Context) (*finding, error) {
	if err := a.stillThere(ctx); err != nil {
		return nil, err
	}
	var unread []*neighbour // to be read now: events report only what comes later
	answered, reread := true, false
	if a.self != nil {
		answered, reread = a.self.answered(), a.self.unread()
	}
	for _, b := range a.ahead {
		if events := b.hear(); len(events) > 0 {
			return a.changed(ctx, b, events[0])
		}
		answered = answered && b.answered()
		if b.unread() {
			unread = append(unread, b)
		}
	}
	if !answered || len(unread) == 0 && !reread {
		return nil, nil
	}
	found, err := a.readAhead(ctx, unread)
	if err != nil && a.mayPass(err) {
		return nil, nil
	}
	return found, err
}

func (a *awaiting) mayPass(err error) bool {
	passes := a.self != nil && a.self.mayPass(err)
	for _, b := range a.ahead {
		passes = b.mayPass(err) || passes
	}
	return passes
}

// stillThere is also the last check before somebody may be let in: has news of my own removal come?
func (a *awaiting) stillThere(ctx context.Context) error {
	if a.self == nil {
		return nil
	}
	if rev := deletion(a.self.hear()); rev > 0 {
		return a.removed(ctx, rev)
	}
	return nil
}

// deletion returns the revision at which a key was deleted; 0: it was not.
func deletion(events []event) int64 {
	for _, ev := range events {
		if ev.deleted {
			return ev.rev
		}
	}
	return 0
}

func (a *awaiting) changed(ctx context.Context, b *neighbour, ev event) (*finding, error) {
	if ev.deleted && a.clears(b) {
		return a.handOff(ctx, ev.rev)
	}
	return a.lookAgain(ctx, ev.rev)
}

// lookAgain ends the waiting with a look.
func (a *awaiting) lookAgain(ctx context.Context, rev int64) (*finding, error) {
	ahead, _, err := a.look(ctx, rev)
	if err == nil {
		err = a.stillThere(ctx)
	}
	return &finding{ahead}, err
}

// handOff finds out, with a point read at the revision of the last deletion ahead, whether my own node still stands. For a
// look, the service would have to go through the whole line.
func (a *awaiting) handOff(ctx context.Context, rev int64) (*finding, error) {
	answer, at, err := a.readAt(ctx, "look at the own node", rev, func(opts ...clientv3.OpOption) []clientv3.Op {
		return []clientv3.Op{a.readOwn(opts...)}
	})
	if err != nil {
		return nil, err
	}
	if incarnation(answer[0], a.created) == nil {
		return nil, a.removed(ctx, at)
	}
	return a.cleared(ctx)
}

// cleared ends the waiting when nobody is left in sight. If the stream has broken since the last look, only another one tells: a backup
// that was put back may have brought back some who had gone.
func (a *awaiting) cleared(ctx context.Context) (*finding, error) {
	if a.watches.era() != a.seen.era {
		return a.lookAgain(ctx, 0)
	}
	a.remember(glance{}, a.seen.era)
	return &finding{}, a.stillThere(ctx)
}

// readAhead finds out by point reads whether some of those ahead, and my own node, stand now. From then on, events report
// what happens.
//
// A read at the revision of the watch would be cheaper for the service, but it would show the past: the watch may be older
// than this wait, or its member may lag behind, and then I would be told of nodes that had gone before I asked.
func (a *awaiting) readAhead(ctx context.Context, some []*neighbour) (*finding, error) {
	answer, at, err := a.readAt(ctx, "look at the node ahead", 0, func(...clientv3.OpOption) []clientv3.Op {
		ops := []clientv3.Op{a.readOwn()}
		for _, b := range some {
			ops = append(ops, clientv3.OpGet(b.key, clientv3.WithKeysOnly()))
		}
		return ops
	})
	if err != nil {
		return nil, err
	}
	if incarnation(answer[0], a.created) == nil {
		return nil, a.removed(ctx, at)
	}
	if a.self != nil {
		a.self.caughtUp(at)
	}
	for i, b := range some {
		kv := incarnation(answer[1+i], b.created)
		switch {
		case kv == nil && a.clears(b):
			return a.cleared(ctx)
		case kv == nil || kv.GetModRevision() != b.known:
			return a.lookAgain(ctx, at)
		}
		b.caughtUp(at)
	}
	return nil, nil
}

// awaitAny waits for many nodes with one watch on the line as a whole: a watch on each would cost the service a request
// each. The first waiter for many permits waits for all holders. A line has only one such waiter, so there is no herd. The
// watch also covers the waiter's own key.
func (p *place) awaitAny(ctx context.Context, wait []driver.Node) (*finding, error) {
	awaited := make(map[string]int64, len(wait)) // the create revision of each
	for i := range wait {
		awaited[keyOf(&wait[i])] = int64(wait[i].Token)
	}
	seen, prefix := p.lastSeen(), p.d.keys.line(p.line)
	v := p.watches.vigil(span{prefix, clientv3.GetPrefixRangeEnd(prefix)}, 0)
	defer v.end()
	for {
		events, err := v.next(ctx, p.pollPause())
		if err != nil {
			return nil, err
		}
		for _, ev := range events {
			switch {
			case ev.deleted && ev.key == p.key:
				return nil, p.removed(ctx, ev.rev)
			case awaited[ev.key] != 0:
				ahead, _, err := p.look(ctx, ev.rev)
				return &finding{ahead}, err
			}
		}
		if len(events) > 0 {
			continue
		}
		ahead, at, err := p.look(ctx, 0)
		if err != nil && v.mayPass(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if differ(wait, ahead, seen.amended, p.lastSeen().amended) {
			return &finding{ahead}, nil
		}
		v.caughtUp(at)
	}
}

// differ reports whether one of wait is no longer ahead, or was amended since the caller looked.
func differ(wait, ahead []driver.Node, then, now map[string]int64) bool {
	there := make(map[string]bool, len(ahead))
	for i := range ahead {
		there[ahead[i].ID] = true
	}
	for i := range wait {
		if id := wait[i].ID; !there[id] || then[id] != now[id] {
			return true
		}
	}
	return false
}

// Watch reads once the watch is open, and from time to time after that. A read that stalls is given up when the bell rings.
// While reading is not permitted, Watch goes on asking: the owner still holds, and must hear of a removal once reading is
// permitted again.
func (p *place) Watch(ctx context.Context) error {
	ctx, unbind := p.life.Bind(ctx)
	defer unbind()
	v := p.watches.vigil(span{key: p.key}, p.created)
	defer v.end()
	for {
		events, err := v.next(ctx, p.pollPause())
		if rev := deletion(events); rev > 0 {
			err = driverkit.Doubt(ctx, p.life, func(ctx context.Context) error { return p.removed(ctx, rev) })
		} else if len(events) == 0 && err == nil {
			err = v.bell.Unless(ctx, func(ctx context.Context) error {
				err := p.readSelf(ctx, v.ear)
				if errors.Is(err, driver.ErrDenied) {
					err = driverkit.Sleep(ctx, refusalRest)
				}
				return err
			})
		}
		if err != nil {
			return p.life.Verdict(err)
		}
	}
}

// readSelf finds out whether our own node is there; from then on its ear reports what happens.
func (p *place) readSelf(ctx context.Context, e *ear) error {
	answer, at, err := p.readAt(ctx, "look at the own node", 0, func(opts ...clientv3.OpOption) []clientv3.Op {
		return []clientv3.Op{p.readOwn(opts...)}
	})
	if err != nil {
		return err
	}
	if incarnation(answer[0], p.created) == nil {
		return p.removed(ctx, at)
	}
	e.caughtUp(at)
	return nil
}
