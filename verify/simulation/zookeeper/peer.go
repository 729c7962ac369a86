package zookeeper

import "time"

// way is one direction between two members. What is sent on it arrives in order, however late.
type way struct {
	from, to *Member
	held     bool
	queue    []message
}

// message is something that one member says to another.
type message struct {
	what   string
	arrive func()
}

// stalls reports whether nothing passes.
func (w *way) stalls() bool { return w.held || w.from.out || w.to.in }

// way returns the one from a member to another.
func (e *Ensemble) way(from, to *Member) *way {
	return e.ways[(from.number-1)*len(e.members)+to.number-1]
}

// joined reports whether two members hear each other.
func (e *Ensemble) joined(a, b *Member) bool {
	return a == b || !e.way(a, b).stalls() && !e.way(b, a).stalls()
}

// send puts a message on its way. It arrives at once unless that way stalls, or the ensemble is slow.
func (e *Ensemble) send(from, to *Member, what string, arrive func()) {
	if from.silent {
		return
	}
	w := e.way(from, to)
	w.queue = append(w.queue, message{what, arrive})
	if !e.slow {
		e.deliver()
	}
}

// atOnce has nothing arrive before all is on its way that f says.
func (e *Ensemble) atOnce(f func()) {
	slow := e.slow
	e.slow = true
	f()
	if e.slow = slow; !slow {
		e.deliver()
	}
}

// deliver has everything arrive that can. What that brings about arrives behind what is under way already.
func (e *Ensemble) deliver() {
	if e.delivering {
		return
	}
	e.delivering = true
	defer func() { e.delivering = false }()
	for some := true; some; {
		some = false
		for _, w := range e.ways {
			for len(w.queue) > 0 && !w.stalls() {
				w.next()
				some = true
			}
		}
	}
}

func (w *way) next() {
	m := w.queue[0]
	w.queue = w.queue[1:]
	m.arrive()
}

// peer is the connection of a member with the leader that it follows. Each end learns of its end when it is told, or when it has
// heard nothing for too long.
type peer struct {
	l      *reign
	m      *Member
	open   bool            // as far as the leader knows
	heard  time.Duration   // by the leader, from the member
	acked  int             // how much of the leader's log the member has logged
	unsure []time.Duration // when the proposals were sent that it has not acknowledged
}

// tell sends something to the member.
func (p *peer) tell(what string, arrive func()) {
	p.l.m.e.send(p.l.m, p.m, what, func() {
		if p.m.peer == p {
			p.m.heard = p.m.e.now()
			arrive()
		}
	})
}

// say sends something to the leader.
func (p *peer) say(what string, arrive func()) {
	p.m.e.send(p.m, p.l.m, what, func() {
		if p.open && p.l.m.reign == p.l {
			p.heard = p.m.e.now()
			arrive()
		}
	})
}

// propose has a member log a proposal and acknowledge it.
func (p *peer) propose(x *txn) {
	p.unsure = append(p.unsure, p.m.e.now())
	p.tell("proposal", func() {
		p.m.log = append(p.m.log, x)
		logged := len(p.m.log)
		p.say("ack", func() {
			p.acked, p.unsure = logged, p.unsure[1:]
			p.l.settle()
		})
	})
}

// commit tells a member that the next proposal has been agreed to. An observer hears of it only now.
func (p *peer) commit(x *txn) {
	p.tell("commit", func() {
		m := p.m
		if m.observer {
			m.log = append(m.log, x)
		}
		if m.committed++; m.log[m.committed-1] != x {
			panic("a member is told that something is agreed to which it has not logged")
		}
		if x.asked != nil && x.asked.conn.m == m {
			m.follow(m.committed - m.applied)
		}
	})
}

// ping asks a member which sessions it has heard from.
func (p *peer) ping() {
	p.tell("ping", func() {
		touched := p.m.touched
		p.m.touched = make(map[int64]int32)
		p.say("ping reply", func() {
			for id, timeout := range touched {
				p.l.touch(p.l.tracked[id], timeout)
			}
		})
	})
}

// answer answers a request that changes nothing. A sync is behind all that was agreed to before it.
func (p *peer) answer(r *request) {
	p.tell("answer", func() {
		r.decided = true
		if r.op == opSync {
			r.index = p.m.committed
			p.m.follow(r.index - p.m.applied)
		}
		r.conn.advance()
	})
}
