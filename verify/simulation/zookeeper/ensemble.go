package zookeeper

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Config describes an ensemble. Zero values stand for the defaults that are given here.
type Config struct {
	Members   int           // that vote
	Observers int           // besides
	Tick      time.Duration // 2 s
	SyncLimit int           // how many ticks a member goes on without the others: 5
	Election  time.Duration // how long one takes: 200 ms
	Sweep     time.Duration // how often empty containers are removed: 1 min
	Version   Version       // 3.8.0
	Rate      float64       // how fast the members' clocks run: 1
	MostConns int           // of one client at a member: any number
	Leaks     bool          // as before 2024: those who watch a node are told what happens to it even if they may not read it
	Root      string        // is left out where requests are described
	Network   Network
}

// Version is ZooKeeper's.
type Version struct{ Major, Minor, Patch int }

func (v Version) atLeast(minor, patch int) bool {
	return v.Major > 3 || v.Minor > minor || v.Minor == minor && v.Patch >= patch
}

// maxBuffer is the default of jute.maxbuffer.
const maxBuffer = 0xfffff

// Ensemble is an ensemble of ZooKeeper servers.
type Ensemble struct {
	cfg   Config
	began time.Time
	stop  chan struct{}
	done  chan struct{}

	mu       sync.Mutex
	members  []*Member
	leader   *Member // nil: none
	electAt  time.Duration
	epoch    int64
	counter  int64 // of transactions in this epoch
	log      []*txn
	latest   *tree               // after all of the log
	tracked  map[int64]*Session  // by the leader
	sessions map[int64]*Session  // all there ever were
	owners   map[string]*Session // who made a node, by its path
	conns    int
	swept    time.Duration
	refusing map[string]bool // links whose next watches are refused
}

// Session is a session that a client has, or had.
type Session struct {
	id      int64
	link    string
	timeout int32         // as granted first, ms
	expires time.Duration // by the leader's clock
	closing bool
	owner   *Member      // the one that the client was on when the leader heard of it last
	untold  atomic.Int64 // when it would have ended, had its timeout not been cut in a way that its client has yet to hear of
}

// Link returns the link whose session it is.
func (s *Session) Link() string { return s.link }

// New starts an ensemble. Close ends it.
func New(cfg Config) *Ensemble {
	set(&cfg.Members, 1)
	set(&cfg.Tick, 2*time.Second)
	set(&cfg.SyncLimit, 5)
	set(&cfg.Election, 200*time.Millisecond)
	set(&cfg.Sweep, time.Minute)
	set(&cfg.Version, Version{3, 8, 0})
	set(&cfg.Rate, 1)
	e := &Ensemble{cfg: cfg, began: time.Now(), stop: make(chan struct{}), done: make(chan struct{}),
		tracked: make(map[int64]*Session), sessions: make(map[int64]*Session), owners: make(map[string]*Session),
		refusing: make(map[string]bool)}
	e.latest = e.newTree()
	for i := range cfg.Members + cfg.Observers {
		m := &Member{e: e, number: i + 1, observer: i >= cfg.Members, up: true, serving: true, tree: e.newTree(),
			touched: make(map[int64]int32), Least: 2 * cfg.Tick, Most: 20 * cfg.Tick}
		m.forget()
		e.members = append(e.members, m)
	}
	e.lead(e.members[cfg.Members-1])
	for _, m := range e.members {
		m.enter()
	}
	go e.run()
	return e
}

func set[T comparable](v *T, to T) {
	var none T
	if *v == none {
		*v = to
	}
}

func (e *Ensemble) newTree() *tree { return newTree(e.cfg.Version.atLeast(6, 0)) }

// Close ends all connections, and stops the ensemble.
func (e *Ensemble) Close() {
	close(e.stop)
	<-e.done
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.members {
		for _, c := range slices.Clone(m.conns) {
			c.end()
			c.pipe.finish()
		}
	}
}

// Members returns all members, those that vote first.
func (e *Ensemble) Members() []*Member { return e.members }

// Leader returns the member that leads, or nil if none does.
func (e *Ensemble) Leader() *Member {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leader
}

// now is the time by the members' clocks.
func (e *Ensemble) now() time.Duration {
	return time.Duration(float64(time.Since(e.began)) * e.cfg.Rate)
}

// run lets time pass: twice in a tick the leader pings the others.
func (e *Ensemble) run() {
	defer close(e.done)
	beat := time.NewTicker(time.Duration(float64(e.cfg.Tick) / 2 / e.cfg.Rate))
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
			e.mu.Lock()
			e.beat()
			e.mu.Unlock()
		case <-e.stop:
			return
		}
	}
}

func (e *Ensemble) beat() {
	now := e.now()
	if e.hasQuorum() {
		for _, m := range e.members {
			if e.reaches(m) {
				e.hear(m)
			}
		}
	}
	patience := time.Duration(e.cfg.SyncLimit) * e.cfg.Tick
	for _, m := range e.members {
		m.outdated()
		if m.serving && now-m.heard > patience {
			m.leave()
			if e.leader == m {
				e.leader = nil
			}
		}
	}
	e.elect(now)
	e.expire(now)
	e.sweep(now)
	e.flow()
}

// hear has a member answer the leader's ping: it says which sessions it has heard from.
func (e *Ensemble) hear(m *Member) {
	m.heard = e.now()
	for id, timeout := range m.touched {
		if s := e.tracked[id]; s != nil && !s.closing {
			e.touch(s, timeout)
		}
	}
	clear(m.touched)
}

// touch puts off the end of a session. Sessions end in the tick after the one in which their time is up.
func (e *Ensemble) touch(s *Session, timeout int32) {
	s.expires = ((e.now()+time.Duration(timeout)*time.Millisecond)/e.cfg.Tick + 1) * e.cfg.Tick
}

// reaches reports whether the leader and a member, which may be itself, hear each other.
func (e *Ensemble) reaches(m *Member) bool {
	l := e.leader
	return l != nil && l.up && m.up && m.serving && (m == l || !m.out && !m.in && !l.out && !l.in)
}

// hasQuorum reports whether the leader can have anything agreed to.
func (e *Ensemble) hasQuorum() bool {
	if e.leader == nil {
		return false
	}
	n := 0
	for _, m := range e.members {
		if !m.observer && e.reaches(m) {
			n++
		}
	}
	return n > e.cfg.Members/2
}

// elect makes a member lead if none does, or only one that a majority has given up. It also lets members in that have come
// back.
func (e *Ensemble) elect(now time.Duration) {
	var looking []*Member
	voters := 0
	for _, m := range e.members {
		if m.up && !m.serving && !m.out && !m.in {
			looking = append(looking, m)
			if !m.observer {
				voters++
			}
		}
	}
	if e.leader != nil && e.hasQuorum() {
		e.admit(looking, now)
		return
	}
	switch {
	case voters <= e.cfg.Members/2:
		e.electAt = 0
	case e.electAt == 0:
		e.electAt = now + e.cfg.Election
	case now >= e.electAt:
		e.electAt = 0
		for _, m := range slices.Backward(looking) { // all know all, so the one with the highest number does
			if !m.observer {
				e.lead(m)
				break
			}
		}
		for _, m := range looking {
			if m != e.leader {
				m.enter()
			}
		}
	}
}

// admit lets members that look for a leader follow the one there is.
func (e *Ensemble) admit(looking []*Member, now time.Duration) {
	for _, m := range looking {
		if !e.leader.out && !e.leader.in && now >= m.back {
			m.enter()
		}
	}
}

// lead has a member begin to lead: it has what was agreed to, or gets it from the others. Sessions have their whole time
// again, as it was first granted.
func (e *Ensemble) lead(m *Member) {
	e.leader, m.leads = m, true
	if e.cfg.Members > 1 {
		e.epoch++
		e.counter = 0
		e.latest.zxid = e.epoch << 32
	}
	m.enter()
	clear(e.tracked)
	for id, timeout := range e.latest.sessions {
		s := e.sessions[id]
		s.closing, s.owner = false, nil
		e.tracked[id] = s
		e.touch(s, timeout)
	}
}

// expire ends the sessions whose time is up.
func (e *Ensemble) expire(now time.Duration) {
	if !e.hasQuorum() {
		return
	}
	var ids []int64
	for id, s := range e.tracked {
		if s.expires <= now && !s.closing {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		e.endSession(e.tracked[id])
	}
}

func (e *Ensemble) endSession(s *Session) {
	s.closing = true
	e.commit(&txn{op: opCloseSession, session: s.id})
	delete(e.tracked, s.id)
	e.leader.follow(1 << 30)
}

// sweep removes containers that have become empty.
func (e *Ensemble) sweep(now time.Duration) {
	if now-e.swept < e.cfg.Sweep || !e.hasQuorum() {
		return
	}
	e.swept = now
	var empty []string
	for p, n := range e.latest.nodes {
		if n.owner == containerOwner && len(n.names) == 0 && n.cversion > 0 {
			empty = append(empty, p)
		}
	}
	slices.Sort(empty)
	for _, p := range empty {
		e.commit(&txn{op: opDelete, path: p})
	}
	e.leader.follow(1 << 30)
}

// commit adds a transaction to what has been agreed to.
func (e *Ensemble) commit(x *txn) {
	e.counter++
	x.zxid = e.epoch<<32 + e.counter
	x.at = e.began.UnixMilli() + e.now().Milliseconds()
	for _, part := range x.parts {
		part.zxid, part.at = x.zxid, x.at
	}
	e.log = append(e.log, x)
	e.latest.apply(x)
}

// flow has the leader decide what it could not be asked before, and members answer what that settles.
func (e *Ensemble) flow() {
	for _, m := range e.members {
		for len(m.forwards) > 0 && e.hasQuorum() && e.reaches(m) {
			r := m.forwards[0]
			m.forwards = m.forwards[1:]
			e.decide(r)
			m.follow(r.index - m.applied)
		}
	}
}

// Dial connects a client to a member at an address.
func (e *Ensemble) Dial(ctx context.Context, link, addr string) (net.Conn, error) {
	var to *Member
	for _, m := range e.members {
		if m.Address() == addr {
			to = m
		}
	}
	if to == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("nobody is at %s", addr)}
	}
	e.mu.Lock()
	e.conns++
	c := &conn{e: e, m: to, link: link, number: e.conns}
	e.mu.Unlock()
	c.pipe = newPipe(c)
	accepted, arrived := make(chan bool, 1), false
	e.cfg.Network.ToMember(Parcel{Link: link, Connection: c.number, What: fmt.Sprintf("dial m%d", to.number), Arrive: func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		if !arrived { // the network may repeat it
			arrived = true
			accepted <- to.accept(c)
		}
		return true
	}})
	select {
	case ok := <-accepted:
		if !ok {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("connection refused by %s", addr)}
		}
		return c.pipe, nil
	case <-ctx.Done():
		_ = c.pipe.Close()
		return nil, ctx.Err()
	}
}
