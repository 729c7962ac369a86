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
	Numbered  []string      // directories that are there from the beginning, and in which as many nodes have been made as Numbers says
	Numbers   int32
	Slow      bool // what members say to each other arrives by Deliver, and not by itself
	Network   Network
}

// Version is ZooKeeper's.
type Version struct{ Major, Minor, Patch int }

func (v Version) atLeast(minor, patch int) bool {
	return v.Major > 3 || v.Minor > minor || v.Minor == minor && v.Patch >= patch
}

// maxBuffer is the default of jute.maxbuffer.
const maxBuffer = 0xfffff

// everything is more than any log has.
const everything = 1 << 30

// Ensemble is an ensemble of ZooKeeper servers.
type Ensemble struct {
	cfg   Config
	began time.Time
	stop  chan struct{}
	done  chan struct{}

	mu         sync.Mutex
	members    []*Member
	ways       []*way // from each member to each
	slow       bool
	delivering bool
	leader     *Member // the latest; nil: none
	electAt    time.Duration
	epoch      int64
	log        []*txn              // what has been agreed to
	latest     *tree               // after all of that
	sessions   map[int64]*Session  // all there ever were
	owners     map[string]*Session // who made a node, by its path
	conns      int
	refusing   map[string]bool // links whose next watches are refused
	doom       *doom           // over the next proposal; nil: nobody's
}

// Session is a session that a client has, or had.
type Session struct {
	id      int64
	link    string
	timeout int32        // as granted first, ms
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
	e := &Ensemble{cfg: cfg, began: time.Now(), stop: make(chan struct{}), done: make(chan struct{}), slow: cfg.Slow,
		sessions: make(map[int64]*Session), owners: make(map[string]*Session), refusing: make(map[string]bool)}
	e.latest = e.newTree()
	for i := range cfg.Members + cfg.Observers {
		m := &Member{e: e, number: i + 1, observer: i >= cfg.Members, up: true, tree: e.newTree(),
			touched: make(map[int64]int32), Least: 2 * cfg.Tick, Most: 20 * cfg.Tick}
		m.forget()
		e.members = append(e.members, m)
	}
	for _, x := range cfg.aged() {
		e.agree(len(e.log), x)
		e.epoch = x.zxid >> 32
	}
	for _, m := range e.members {
		m.log = slices.Clone(e.log)
	}
	for _, from := range e.members {
		for _, to := range e.members {
			e.ways = append(e.ways, &way{from: from, to: to})
		}
	}
	e.lead(e.members[cfg.Members-1])
	for _, m := range e.members {
		if m != e.leader {
			e.leader.reign.admit(m)
		}
	}
	go e.run()
	return e
}

// aged returns the log of an ensemble that has had a life before. It has made at least as many transactions as nodes.
func (cfg Config) aged() (log []*txn) {
	made := make(map[string]bool)
	for _, dir := range cfg.Numbered {
		for i, r := range dir[1:] + "/" {
			if p := dir[:i+1]; r == '/' && !made[p] {
				made[p] = true
				log = append(log, &txn{op: opCreate, path: p, acl: openACL, zxid: int64(len(log) + 1), cversion: 1, at: time.Now().UnixMilli()})
			}
		}
		log[len(log)-1].first = cfg.Numbers
	}
	if len(log) > 0 {
		log = append(log, &txn{op: opError, code: errNoNode, zxid: 1 << 32})
	}
	return log
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
			e.unlock()
		case <-e.stop:
			return
		}
	}
}

// unlock lets go of mu. Before that, what members say to each other arrives.
func (e *Ensemble) unlock() {
	if !e.slow {
		e.deliver()
	}
	e.mu.Unlock()
}

func (e *Ensemble) beat() {
	now, patience := e.now(), time.Duration(e.cfg.SyncLimit)*e.cfg.Tick
	for _, m := range e.members {
		if m.reign != nil {
			m.reign.beat(now, patience)
		}
	}
	if !e.slow {
		e.deliver()
	}
	for _, m := range e.members {
		if m.peer != nil && now-m.heard > patience {
			m.leave()
		}
	}
	e.elect(now)
	for _, m := range e.members {
		if m.reign != nil {
			m.reign.expire(now)
			m.reign.sweep(now)
		}
	}
}

// elect makes a member lead if a majority looks for a leader. It also lets members in that have come back.
func (e *Ensemble) elect(now time.Duration) {
	var looking []*Member
	for _, m := range e.members {
		if m.up && !m.serves() {
			looking = append(looking, m)
		}
	}
	best := e.candidate(looking)
	switch {
	case best == nil:
		e.electAt = 0
		if l := e.leader; l != nil && l.reign.hasMajority() {
			l.reign.take(looking, func(m *Member) bool { return now >= m.back })
		}
	case e.electAt == 0:
		e.electAt = now + e.cfg.Election
	case now >= e.electAt:
		e.electAt = 0
		e.lead(best)
		best.reign.take(looking, func(m *Member) bool { return m != best })
	}
}

// take admits those that hear the leader, and that it hears.
func (l *reign) take(looking []*Member, may func(m *Member) bool) {
	for _, m := range looking {
		if may(m) && l.m.e.joined(m, l.m) {
			l.admit(m)
		}
	}
}

// candidate returns the member that will lead: a majority reaches it, and has logged no more than it has. It returns nil if
// there is none.
func (e *Ensemble) candidate(looking []*Member) (best *Member) {
	for _, c := range looking {
		n := 0
		for _, v := range looking {
			if !v.observer && e.joined(c, v) && v.compare(c) <= 0 {
				n++
			}
		}
		if !c.observer && n > e.cfg.Members/2 && (best == nil || c.compare(best) >= 0) {
			best = c
		}
	}
	return best
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
		defer e.unlock()
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
