package etcd

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/internal/bell"
	"github.com/turnwise/turnwise/internal/doubt"
)

const (
	// watchOwnAfter is how long somebody waits before its own key is listened to as well. Whoever is let in has read
	// the own key anyway; the watch is for those who are removed while they go on waiting.
	watchOwnAfter = 25 * time.Millisecond

	// pollEvery is about how often a waiter looks without being told, and pollsOfAll what all in a session leave
	// between their looks: ten thousand that wait for hours are no load.
	pollEvery  = 20 * time.Second
	pollsOfAll = 20 * time.Millisecond
)

func (s *session) pollPause() time.Duration {
	d := max(pollEvery, time.Duration(s.watches.size())*pollsOfAll)
	return d/2 + rand.N(d)
}

// awaiting is one Await.
type awaiting struct {
	s    *session
	view view
	own  *standing
	seen *sighting // by the caller
	bell bell.Bell

	self  *ear   // listens to the own key; nil: not yet
	ahead []*ear // in the order of wait
}

// ear listens to one node.
type ear struct {
	*listener
	node    driver.Node
	key     string
	left    string // the left key of the session that made it; "": not of our make
	armed   int64  // the watch that was open when it was read; 0: none yet
	since   int64  // the revision of that read: it stood then, and later events count
	mark    bool   // it was nearest in sight, so if it left as the holder nobody is ahead
	only    bool   // it was alone in sight, so once it has left, however it did, nobody is ahead
	pending news
}

func (s *session) Await(ctx context.Context, me driver.Node, sight driver.Sight, wait []driver.Node) ([]driver.Node, error) {
	own, err := s.stand(&me)
	if err != nil {
		return nil, err
	}
	ctx, unbind := s.bind(ctx)
	defer unbind()
	a := &awaiting{
		s:    s,
		view: view{me.Line, sight},
		own:  own,
		seen: own.saw(sight),
		bell: bell.New(),
	}
	defer a.drop()
	ahead, err := a.wait(ctx, wait)
	if errors.Is(err, driver.ErrRemoved) {
		s.forget(me.ID)
	}
	return ahead, s.verdict(err)
}

func (a *awaiting) wait(ctx context.Context, wait []driver.Node) ([]driver.Node, error) {
	if len(wait) > wide {
		return a.runWide(ctx, wait)
	}
	for i := range wait {
		n := &wait[i]
		key, _, ok := parseID(n.ID)
		if !ok {
			continue // not a node of this driver, so it has gone
		}
		e := a.listen(n, key)
		nearest := i == len(wait)-1 && n.ID == a.seen.nearest
		e.only = nearest && a.seen.only
		e.mark = nearest && !e.only && e.left != ""
	}
	if len(wait) != len(a.ahead) {
		return a.look(ctx, 0)
	}
	return a.run(ctx)
}

func (a *awaiting) listen(n *driver.Node, key string) *ear {
	e := &ear{node: *n, key: key, left: a.s.d.names.leftOf(n.Line, key), listener: a.s.watches.add(span{key: key}, a.bell)}
	a.ahead = append(a.ahead, e)
	return e
}

func (a *awaiting) listenToSelf() {
	a.self = &ear{node: a.own.node, key: a.own.key, listener: a.s.watches.add(span{key: a.own.key}, a.bell)}
}

func (a *awaiting) drop() {
	for _, e := range a.ears() {
		a.s.watches.drop(e.listener)
	}
}

func (a *awaiting) ears() []*ear {
	if a.self == nil {
		return a.ahead
	}
	return append(slices.Clone(a.ahead), a.self)
}

func (a *awaiting) run(ctx context.Context) ([]driver.Node, error) {
	var ownTimer <-chan time.Time
	if len(a.ahead) == 0 {
		a.listenToSelf()
	} else {
		t := time.NewTimer(watchOwnAfter)
		defer t.Stop()
		ownTimer = t.C
	}
	poll := time.NewTimer(a.s.pollPause())
	defer poll.Stop()
	for {
		found, err := a.hear(ctx)
		if found != nil || err != nil {
			return found.result(), err
		}
		select {
		case <-a.bell:
		case <-ownTimer:
			ownTimer = nil
			a.listenToSelf()
		case <-poll.C:
			found, err := a.ask(ctx, a.ears())
			if found != nil || err != nil {
				return found.result(), err
			}
			poll.Reset(a.s.pollPause())
		case <-ctx.Done():
			return nil, unanswered(ctx, "await", nil)
		}
	}
}

// finding is what makes an end of the waiting.
type finding struct{ ahead []driver.Node }

func (f *finding) result() []driver.Node {
	if f == nil {
		return nil
	}
	return f.ahead
}

// hear works on the news. It returns nil if there is nothing that makes an end of the waiting.
func (a *awaiting) hear(ctx context.Context) (*finding, error) {
	var deaf []*ear // their watches are new to them: read what is there now
	open := true
	for _, e := range a.ears() {
		e.pending = e.take()
		if e.pending.refused != nil {
			return nil, e.pending.refused
		}
		switch {
		case e.pending.opened == 0:
			open = false
		case e.pending.watch != e.armed:
			deaf = append(deaf, e)
		}
	}
	if a.self != nil {
		if rev, gone := a.myEnd(a.self.pending.events); gone {
			return nil, a.removed(ctx, rev)
		}
	}
	for _, e := range a.ahead {
		if e.armed == 0 {
			continue
		}
		for _, ev := range e.pending.events {
			if ev.rev <= e.since {
				continue
			}
			if ev.deleted && (e.mark || e.only) {
				return a.handOff(ctx, e, ev.rev)
			}
			return a.lookOut(ctx, ev.rev)
		}
	}
	if len(deaf) == 0 || !open {
		return nil, nil
	}
	return a.ask(ctx, deaf)
}

// removed is the error of one who was told that its key is gone.
func (a *awaiting) removed(ctx context.Context, rev int64) error {
	if len(a.ahead) > 0 {
		return a.s.removed(ctx, rev)
	}
	over := func() bool { return a.s.life.Err() != nil }
	return doubt.Ask(ctx, over, func(ctx context.Context) error { return a.s.removed(ctx, rev) })
}

// lookOut is a look that makes an end of the waiting.
func (a *awaiting) lookOut(ctx context.Context, rev int64) (*finding, error) {
	ahead, err := a.look(ctx, rev)
	if err != nil {
		return nil, err
	}
	return &finding{ahead}, nil
}

// look is what stands ahead at revision rev, 0: now.
func (a *awaiting) look(ctx context.Context, rev int64) ([]driver.Node, error) {
	ahead, stands, at, err := a.s.look(ctx, a.view, a.own, rev)
	if err != nil {
		return nil, err
	}
	if !stands {
		return nil, a.s.removed(ctx, at)
	}
	return ahead, a.stillThere(ctx)
}

// stillThere is the last thing to ask before somebody may be let in: has word of my own removal come meanwhile?
func (a *awaiting) stillThere(ctx context.Context) error {
	if a.self == nil {
		return nil
	}
	if rev, gone := a.myEnd(a.self.take().events); gone {
		return a.s.removed(ctx, rev)
	}
	return nil
}

// myEnd looks for the deletion of the own key, which is made once.
func (a *awaiting) myEnd(events []event) (rev int64, gone bool) {
	for _, ev := range events {
		if ev.deleted && ev.rev > a.own.created {
			return ev.rev, true
		}
	}
	return 0, false
}

// handOff finds out with point reads at the revision of its deletion whether the node right ahead left as the holder,
// and whether I still stand. A look would cost the service the whole line.
func (a *awaiting) handOff(ctx context.Context, e *ear, rev int64) (*finding, error) {
	ops := func(opts ...clientv3.OpOption) []clientv3.Op {
		ops := []clientv3.Op{clientv3.OpGet(a.own.key, append(slices.Clone(opts), clientv3.WithKeysOnly())...)}
		if e.mark {
			ops = append(ops, clientv3.OpGet(e.left, opts...))
		}
		return ops
	}
	answer, at, err := a.s.readAt(ctx, "look for the hand-off", rev, ops)
	if err != nil {
		return nil, err
	}
	if incarnation(answer[0], a.own.node.ID) == nil {
		return nil, a.s.removed(ctx, at)
	}
	if e.only || e.leftAsHolder(answer[1]) {
		return &finding{}, a.stillThere(ctx)
	}
	return a.lookOut(ctx, rev)
}

// leftAsHolder works on a read of the left key. Nobody else's write looks like the mark: the key is its session's own,
// and the value is a create revision, which is given out once.
func (e *ear) leftAsHolder(answer *pb.ResponseOp) bool {
	kvs := answer.GetResponseRange().GetKvs()
	_, created, _ := parseID(e.node.ID)
	return len(kvs) == 1 && string(kvs[0].GetValue()) == leftValue(created)
}

// ask is read; but a holder whose question stalls must hear the news all the same.
func (a *awaiting) ask(ctx context.Context, ears []*ear) (found *finding, err error) {
	if len(a.ahead) > 0 {
		return a.read(ctx, ears)
	}
	err = a.bell.Unless(ctx, func(ctx context.Context) error {
		found, err = a.read(ctx, ears)
		return err
	})
	return found, err
}

// read finds out by point reads whether the nodes that ears listen to, and my own, stand now. From then on events tell.
//
// A read at the revision of the watch would be cheaper for the service, but show the past: the watch may be older than
// this wait, or its member lag behind, and then I would be told of nodes that had gone before I asked.
func (a *awaiting) read(ctx context.Context, ears []*ear) (*finding, error) {
	for part := range slices.Chunk(ears, maxOps/2-1) {
		ops := func(opts ...clientv3.OpOption) []clientv3.Op {
			keys := append(slices.Clone(opts), clientv3.WithKeysOnly())
			ops := []clientv3.Op{clientv3.OpGet(a.own.key, keys...)}
			for _, e := range part {
				if e != a.self {
					ops = append(ops, clientv3.OpGet(e.key, keys...))
				}
				if e.mark {
					ops = append(ops, clientv3.OpGet(e.left, opts...))
				}
			}
			return ops
		}
		answer, at, err := a.s.readAt(ctx, "look at the node ahead", 0, ops)
		if err != nil {
			return nil, err
		}
		if incarnation(answer[0], a.own.node.ID) == nil {
			return nil, a.s.removed(ctx, at)
		}
		answer = answer[1:]
		for _, e := range part {
			if e == a.self {
				e.armed, e.since = e.pending.watch, at
				continue
			}
			kv := incarnation(answer[0], e.node.ID)
			answer = answer[1:]
			handed := e.only
			if e.mark {
				handed = e.leftAsHolder(answer[0])
				answer = answer[1:]
			}
			if kv == nil && handed {
				return &finding{}, a.stillThere(ctx)
			}
			if kv == nil || kv.GetModRevision() != a.known(e.node, kv.GetCreateRevision()) {
				return a.lookOut(ctx, at)
			}
			if e.pending.opened > 0 {
				e.armed, e.since = e.pending.watch, at
			}
		}
	}
	return nil, nil
}

// known is the mod revision that a node had when the caller looked.
func (a *awaiting) known(n driver.Node, created int64) int64 {
	if rev := a.seen.amended[n.ID]; rev > 0 {
		return rev
	}
	return created
}
