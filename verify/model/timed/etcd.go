package timed

import (
	"time"

	"github.com/turnwise/turnwise/coord/driver/deadlines"
	"github.com/turnwise/turnwise/verify/model/walk"
)

// Etcd is one lease of a cluster. Its client sends renewals and linearizable reads, each to any member, and whatever is under
// way takes any time. Another leader may take over at any time, with the next term, and gives the lease its whole TTL. The ones
// before may not know it: they were stopped, or are cut off from the others. A member may not have heard of the latest leader
// either.
//
// A member that gets a renewal fills in the term that it knows, then passes the renewal on to the leader that it knows. That
// leader renews the lease in its own memory. A read is confirmed by a majority, and then the term is filled in.
type Etcd struct {
	TTL     int // in ticks
	Leaders int

	Confirms    bool // a leader has a majority confirm that it leads before it renews
	Checkpoints bool // the leader tells the others what is left of the lease, and a new one counts by that
	KeepsThem   bool // a leader that cannot undo a checkpoint renews all the same
	Proxy       bool // a proxy renews by itself, and answers with the latest answer that it has
	Proceeds    bool // a new leader goes on counting where the one before was
	FilledLate  bool // the term is filled in after the renewal
	LocalReads  bool // reads are answered without a majority

	Rule LeaseRule
}

// LeaseRule returns until when the client believes once the answer that came last is known; fresh says which one that was.
type LeaseRule func(e *Etcd, renewal, read deadlines.Answer, fresh Fresh) time.Duration

// Fresh says which answer came last.
type Fresh uint8

// The answers that may have come last.
const (
	FreshRenewal Fresh = iota
	FreshRead
)

// ShippedLease is the rule that ships.
func ShippedLease(e *Etcd, renewal, read deadlines.Answer, fresh Fresh) time.Duration {
	var l deadlines.Lease
	ttl := time.Duration(e.TTL) * tick
	l.Granted(deadlines.Answer{Sent: now - 100*tick}, ttl)
	if fresh == FreshRead {
		l.Renewed(renewal, ttl)
		return l.Read(read)
	}
	l.Read(read)
	return l.Renewed(renewal, ttl)
}

type etcdState struct {
	left      uint8 // for how many ticks the client believes
	age       uint8 // of the lease, as the latest leader counts; those before always take it for alive
	leader    uint8 // the latest, from 0
	over      bool
	point     uint8 // what a checkpoint says is left; 0: there is none
	renewal   ask
	read      ask
	proxied   heard // what the proxy has
	lastRenew heard
	lastRead  heard
}

// ask is a request under way.
type ask struct {
	stage askStage
	sent  uint8
	term  uint8
	to    uint8 // the leader
}

type askStage uint8

const (
	none askStage = iota
	sent
	filledIn
	withLeader
	confirmed
	done
)

// heard is an answer that the client has.
type heard struct{ sent, term uint8 }

func (e *Etcd) answer(h heard) deadlines.Answer {
	return deadlines.Answer{Sent: ago(h.sent), Term: uint64(h.term)}
}

type etcdSteps struct {
	e    *Etcd
	from etcdState
	all  []walk.Move[etcdState]
}

// do adds a step.
func (t *etcdSteps) do(what string, change func(s *etcdState)) {
	s := t.from
	change(&s)
	if s.over {
		s.age = 0
	}
	m := walk.Move[etcdState]{State: s, What: what, Sure: true}
	if s.over && s.left > 0 {
		m.Bad = "the next one is in, and the client believes"
	}
	t.all = append(t.all, m)
}

// Search walks through all schedules of any length.
func (e Etcd) Search(limit int) (walk.Result, bool) {
	never := heard{sent: uint8(e.TTL)}
	first := etcdState{lastRenew: never, lastRead: never, proxied: never}
	return walk.Search(first, e.moves, func(*etcdState) string { return "" }, limit)
}

func (e *Etcd) moves(s etcdState) []walk.Move[etcdState] {
	t := &etcdSteps{e: e, from: s}
	e.renewals(t)
	e.reads(t)
	e.leaders(t)
	t.do("tick", func(s *etcdState) { e.tick(s) })
	return t.all
}

var (
	goesTo  = [...]string{"the renewal goes to the first leader", "the renewal goes to the second leader", "the renewal goes to the third leader"}
	filling = [...]string{"the first term is filled in", "the second term is filled in", "the third term is filled in"}
)

func (e *Etcd) renewals(t *etcdSteps) {
	s := &t.from
	switch r := s.renewal; r.stage {
	case none:
		if !s.over {
			t.do("the client sends a renewal", func(s *etcdState) { s.renewal = ask{stage: sent} })
		}
		return
	case sent:
		if e.Proxy && int(s.proxied.sent) < e.TTL {
			t.do("the proxy answers the renewal", func(s *etcdState) { s.renewal.stage, s.renewal.term = done, s.proxied.term })
		}
		if e.FilledLate {
			e.forward(t, 0)
			break
		}
		for term := range s.leader + 1 {
			t.do(filling[term], func(s *etcdState) { s.renewal.stage, s.renewal.term = filledIn, term })
		}
	case filledIn:
		e.forward(t, r.term)
	case withLeader:
		if e.Confirms {
			if r.to == s.leader {
				t.do("a majority confirms that it leads", func(s *etcdState) { s.renewal.stage = confirmed })
			}
			break
		}
		e.renew(t)
	case confirmed:
		e.renew(t)
	case done:
		t.do("the client gets the answer to its renewal", func(s *etcdState) {
			s.lastRenew, s.renewal = heard{s.renewal.sent, s.renewal.term}, ask{}
			e.believe(s, FreshRenewal)
		})
	}
	t.do("the client gives the renewal up", func(s *etcdState) { s.renewal = ask{} })
}

// forward has a member that knows of a term pass the renewal on.
func (e *Etcd) forward(t *etcdSteps, term uint8) {
	for to := term; to <= t.from.leader; to++ {
		t.do(goesTo[to], func(s *etcdState) { s.renewal.stage, s.renewal.to = withLeader, to })
	}
}

func (e *Etcd) renew(t *etcdSteps) {
	s := &t.from
	to := s.renewal.to
	if to == s.leader && (s.over || int(s.age) == e.TTL) {
		return
	}
	touch := func(s *etcdState) {
		if to == s.leader {
			s.age = 0
		}
	}
	renew := func(s *etcdState) {
		touch(s)
		s.renewal = ask{stage: done, sent: s.renewal.sent, term: s.renewal.term}
	}
	fill := func(what string, change func(s *etcdState)) {
		if !e.FilledLate {
			t.do(what, change)
			return
		}
		for term := range s.leader + 1 {
			t.do(what+", "+filling[term], func(s *etcdState) { change(s); s.renewal.term = term })
		}
	}
	if e.Proxy {
		t.do("the renewal was the proxy's own", func(s *etcdState) {
			touch(s)
			s.proxied = heard{0, s.renewal.term}
			s.renewal = ask{}
		})
	}
	switch {
	case s.point == 0:
		fill("it renews", renew)
	default:
		if to == s.leader {
			fill("it undoes the checkpoint and renews", func(s *etcdState) { renew(s); s.point = 0 })
		}
		if e.KeepsThem {
			fill("it cannot undo the checkpoint, and renews", renew)
		}
	}
}

func (e *Etcd) reads(t *etcdSteps) {
	s := &t.from
	switch r := s.read; r.stage {
	case none:
		if !s.over {
			t.do("the client sends a read", func(s *etcdState) { s.read = ask{stage: sent} })
		}
	case sent:
		if e.LocalReads {
			for term := range s.leader + 1 {
				t.do("a member answers the read, "+filling[term], func(s *etcdState) { s.read.stage, s.read.term = done, term })
			}
			break
		}
		t.do("a majority confirms the read", func(s *etcdState) { s.read.stage, s.read.to = confirmed, s.leader })
	case confirmed:
		for term := r.to; term <= s.leader; term++ {
			t.do("of the read, "+filling[term], func(s *etcdState) { s.read.stage, s.read.term = done, term })
		}
	case done:
		t.do("the client gets the answer to its read", func(s *etcdState) {
			s.lastRead, s.read = heard{s.read.sent, s.read.term}, ask{}
			e.believe(s, FreshRead)
		})
	}
}

func (e *Etcd) believe(s *etcdState, fresh Fresh) {
	left := (e.Rule(e, e.answer(s.lastRenew), e.answer(s.lastRead), fresh) - now + tick - 1) / tick
	if left > time.Duration(s.left) {
		s.left = uint8(left)
	}
}

func (e *Etcd) leaders(t *etcdSteps) {
	s := &t.from
	if s.over {
		return
	}
	if int(s.leader)+1 < e.Leaders {
		t.do("another leader takes over", func(s *etcdState) {
			if s.point > 0 {
				s.age = uint8(e.TTL) - s.point
			} else if !e.Proceeds {
				s.age = 0
			}
			s.leader++
		})
	}
	if int(s.age) == e.TTL {
		t.do("THE LEADER ENDS THE LEASE", func(s *etcdState) { s.over = true })
	} else if e.Checkpoints && s.point == 0 && s.age > 0 && int(s.leader)+1 < e.Leaders { // the last one's matter to nobody
		t.do("the leader makes a checkpoint", func(s *etcdState) { s.point = uint8(e.TTL) - s.age })
	}
}

func (e *Etcd) tick(s *etcdState) {
	up := func(a *uint8) { *a = min(*a+1, uint8(e.TTL)) }
	up(&s.age)
	if s.renewal.stage != none {
		up(&s.renewal.sent)
	}
	if s.read.stage != none {
		up(&s.read.sent)
	}
	for _, h := range []*heard{&s.proxied, &s.lastRenew, &s.lastRead} {
		if up(&h.sent); int(h.sent) == e.TTL { // it says nothing any more
			h.term = 0
		}
	}
	s.left = max(s.left, 1) - 1
}
