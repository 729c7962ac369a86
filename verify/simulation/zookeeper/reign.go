package zookeeper

import (
	"slices"
	"time"
)

// reign is what a member knows as long as it leads, or thinks so.
type reign struct {
	m       *Member
	zxid    int64 // of its latest proposal
	ahead   *tree // after all that it has logged, agreed to or not
	peers   []*peer
	tracked map[int64]*tracked
	syncs   []waiting
	swept   time.Duration
}

// tracked is a session as a leader knows it.
type tracked struct {
	*Session
	expires time.Duration // by the leader's clock
	closing bool
	owner   *Member // the one that the client was on when the leader heard of it last
}

// waiting is a sync, which is answered when so much of the log has been agreed to.
type waiting struct {
	r     *request
	index int
}

// lead has a member begin to lead: it knows all that was agreed to. A majority follows, so all that it has logged is agreed to
// now. Sessions have their whole time again, as it was first granted.
func (e *Ensemble) lead(m *Member) {
	l := &reign{m: m, ahead: e.newTree(), tracked: make(map[int64]*tracked), swept: e.now()}
	for _, x := range m.log {
		l.ahead.apply(x)
		l.zxid = x.zxid
	}
	if e.cfg.Members > 1 {
		e.epoch++
		l.zxid = e.epoch << 32
	}
	l.ahead.zxid = max(l.ahead.zxid, l.zxid)
	e.leader, m.reign, m.epoch = m, l, e.epoch
	for i, x := range m.log {
		e.agree(i, x)
	}
	m.committed = len(m.log)
	m.follow(everything)
	m.tree.zxid, e.latest.zxid = max(m.tree.zxid, l.zxid), max(e.latest.zxid, l.zxid)
	for id, timeout := range l.ahead.sessions {
		t := &tracked{Session: e.sessions[id]}
		l.tracked[id] = t
		l.touch(t, timeout)
	}
}

// admit has a member follow: it forgets what it has logged and the leader has not, and learns all that was agreed to.
func (l *reign) admit(m *Member) {
	e := l.m.e
	same := 0
	for same < min(len(m.log), l.m.committed) && m.log[same] == l.m.log[same] {
		same++
	}
	m.log = append(m.log[:same], l.m.log[same:l.m.committed]...)
	m.committed, m.epoch, m.heard = len(m.log), l.m.epoch, e.now()
	m.peer = &peer{l: l, m: m, open: true, heard: e.now(), acked: len(m.log)}
	l.peers = append(l.peers, m.peer)
	e.atOnce(func() {
		m.follow(everything)
		m.tree.zxid = max(m.tree.zxid, int64(m.epoch)<<32)
		for _, x := range l.m.log[l.m.committed:] {
			if !m.observer {
				m.peer.propose(x)
			}
		}
	})
}

// agree records what has been agreed to, for those who look at the ensemble from outside.
func (e *Ensemble) agree(i int, x *txn) {
	if i < len(e.log) {
		if e.log[i] != x {
			panic("zookeeper: two transactions are agreed to in one place")
		}
		return
	}
	e.log = append(e.log, x)
	e.latest.apply(x)
	for _, part := range slices.Concat(x.parts, []*txn{x}) {
		if part.op == opCreate && part.owner > 0 {
			e.owners[part.path] = e.sessions[part.owner]
		}
	}
}

// propose logs a transaction, and has the others log it.
func (l *reign) propose(x *txn) {
	e := l.m.e
	l.zxid++
	x.zxid, x.at = l.zxid, e.began.UnixMilli()+e.now().Milliseconds()
	for _, part := range x.parts {
		part.zxid, part.at = x.zxid, x.at
	}
	l.m.log = append(l.m.log, x)
	l.ahead.apply(x)
	if r := x.asked; r != nil {
		r.decided, r.index, r.txn = true, len(l.m.log), x
	}
	if d := e.doom; d != nil && x.asked != nil {
		if others := l.followers(); len(others) > 0 {
			e.doom = nil
			l.dies(x, d, others)
			return
		}
	}
	l.spread(x)
	l.settle()
}

// spread has the others log a proposal. It is on its way to all before a majority can agree: nobody is told of that first.
func (l *reign) spread(x *txn) {
	l.m.e.atOnce(func() {
		for _, p := range l.peers {
			if !p.m.observer {
				p.propose(x)
			}
		}
	})
}

// settle commits what a majority has logged.
func (l *reign) settle() {
	for l.m.reign == l && l.m.committed < len(l.m.log) && l.voters(func(p *peer) bool { return p.acked > l.m.committed }) > l.m.e.cfg.Members/2 {
		x := l.m.log[l.m.committed]
		l.m.e.agree(l.m.committed, x)
		l.m.committed++
		for _, p := range slices.Clone(l.peers) {
			p.commit(x)
		}
		l.m.follow(everything)
		if x.op == opCloseSession {
			delete(l.tracked, x.session)
		}
		for len(l.syncs) > 0 && l.syncs[0].index <= l.m.committed {
			r := l.syncs[0].r
			l.syncs = l.syncs[1:]
			l.answer(r)
		}
	}
}

// voters counts the members that vote and of which something is true, and the leader.
func (l *reign) voters(is func(p *peer) bool) int {
	n := 0
	for _, m := range l.m.e.members {
		if !m.observer && (m == l.m || slices.ContainsFunc(l.peers, func(p *peer) bool { return p.m == m && is(p) })) {
			n++
		}
	}
	return n
}

// hasMajority reports whether a majority follows, as far as the leader knows.
func (l *reign) hasMajority() bool {
	return l.voters(func(*peer) bool { return true }) > l.m.e.cfg.Members/2
}

// hears reports whether a majority follows that hears the leader, and that it hears.
func (l *reign) hears() bool {
	return l.voters(func(p *peer) bool { return p.m.peer == p && l.m.e.joined(p.m, l.m) }) > l.m.e.cfg.Members/2
}

// beat pings all who follow, and gives up those that have been silent for too long, or have not acknowledged a proposal. A
// leader that has lost the majority gives up.
func (l *reign) beat(now, patience time.Duration) {
	for _, p := range slices.Clone(l.peers) {
		if now-p.heard > patience || len(p.unsure) > 0 && now-p.unsure[0] > patience {
			l.drop(p)
			p.tell("hung up", p.m.leave)
			continue
		}
		p.ping()
	}
	if !l.hasMajority() {
		l.m.leave()
	}
}

// drop forgets a member that has left, or is silent.
func (l *reign) drop(p *peer) {
	p.open = false
	l.peers = slices.DeleteFunc(l.peers, func(other *peer) bool { return other == p })
}

// touch puts off the end of a session. Sessions end in the tick after the one in which their time is up.
func (l *reign) touch(t *tracked, timeout int32) {
	if t != nil && !t.closing {
		tick := l.m.e.cfg.Tick
		t.expires = ((l.m.e.now()+time.Duration(timeout)*time.Millisecond)/tick + 1) * tick
	}
}

// expire ends the sessions whose time is up.
func (l *reign) expire(now time.Duration) {
	var ids []int64
	for id, t := range l.tracked {
		if t.expires <= now && !t.closing {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		l.endSession(l.tracked[id])
	}
}

func (l *reign) endSession(t *tracked) {
	t.closing = true
	l.propose(&txn{op: opCloseSession, session: t.id})
}

// sweep removes containers that have become empty.
func (l *reign) sweep(now time.Duration) {
	if now-l.swept < l.m.e.cfg.Sweep {
		return
	}
	l.swept = now
	var empty []string
	for p, n := range l.ahead.nodes {
		if n.owner == containerOwner && len(n.names) == 0 && n.cversion > 0 {
			empty = append(empty, p)
		}
	}
	slices.Sort(empty)
	for _, p := range empty {
		l.propose(&txn{op: opDelete, path: p})
	}
}

// decide decides about a request. Those that change something are proposed.
func (l *reign) decide(r *request) {
	switch r.op {
	case opCreateSession:
		l.decideSession(r)
		return
	case opSync:
		if t := l.tracked[r.session.id]; t == nil || t.closing || t.owner != nil && t.owner != r.conn.m {
			r.txn = &txn{op: opError, code: l.ownership(r)}
		}
		if r.conn.m != l.m && l.m.committed < len(l.m.log) {
			l.syncs = append(l.syncs, waiting{r, len(l.m.log)})
			return
		}
		l.answer(r)
		return
	}
	x := &txn{session: r.session.id, asked: r}
	if x.code = l.ownership(r); x.code == 0 && r.op == opCloseSession {
		x.op = opCloseSession
		l.tracked[r.session.id].closing = true
	} else if x.code == 0 {
		l.prepare(r, x)
	}
	if x.code != 0 && x.op != opMulti {
		x.op = opError
	}
	l.propose(x)
}

// answer answers a request that changes nothing. The leader's own clients ask nobody else.
func (l *reign) answer(r *request) {
	if r.conn.m == l.m {
		r.decided = true
		r.conn.advance()
		return
	}
	if p := r.conn.m.peer; p != nil && p.l == l {
		p.answer(r)
	}
}

// ownership returns an error code if a session may not be used through this member any more.
func (l *reign) ownership(r *request) int32 {
	t := l.tracked[r.session.id]
	switch {
	case t == nil || t.closing:
		return errExpired
	case t.owner == nil:
		t.owner = r.conn.m
	case t.owner != r.conn.m:
		return errMoved
	}
	return 0
}

// elsewhere reports whether a session is on another member. For requests that need no decision, only the leader checks that,
// on its own connections.
func (l *reign) elsewhere(r *request) bool {
	t := l.tracked[r.session.id]
	return t != nil && t.owner != nil && t.owner != r.conn.m
}

// decideSession opens a session, or says whether one lives, which counts as hearing of it.
func (l *reign) decideSession(r *request) {
	e, c := l.m.e, r.conn
	if r.session != nil {
		t := l.tracked[r.session.id]
		if r.refused = t == nil || t.closing; !r.refused {
			before := t.expires
			l.touch(t, c.timeout)
			if t.expires < before {
				t.untold.Store(int64(before))
			}
			t.owner = c.m
		}
		l.answer(r)
		return
	}
	s := &Session{id: int64(c.m.number)<<56 | int64(len(e.sessions)+1), link: c.link, timeout: c.timeout}
	t := &tracked{Session: s, owner: c.m}
	e.sessions[s.id], l.tracked[s.id] = s, t
	r.session = s
	l.touch(t, c.timeout)
	l.propose(&txn{op: opCreateSession, session: s.id, timeout: c.timeout, asked: r})
}
