package timed

import (
	"github.com/turnwise/turnwise/verify/model/walk"
)

// ZooKeeper is one session of an ensemble. Its client talks to a server, the server to a leader. Each direction between server
// and leader is a queue, first in first out, that delivers its next message whenever it likes, or never. So a link may stall
// one way, for any time, while it delivers the other way; a server that stands still is a server whose queues stall.
//
// The leader pings the server each Ping ticks. The server answers with a touch if it has heard of the client since the last
// ping. The leader counts the session from the latest touch that has arrived, and ends it Timeout ticks after that, or later.
// Another leader may take over at any time, and counts from then. The old one commits nothing any more, but answers syncs and
// takes touches. The client may send any request at any time, and connect again at any time. So whatever holds here does not
// rest on when a client sends what.
//
// What passes between client and server takes no time unless Far is set. That is the worst case, since a slow request makes
// the client count from earlier, and a slow answer tells it later.
type ZooKeeper struct {
	Timeout, Ping int // in ticks
	UnderWay      int // requests at a time
	Queue         int // messages in one direction between server and leader

	Pings       bool // the client pings: the server answers by itself
	Syncs       bool
	Leaders     bool // others take over
	Reconnects  bool
	Agreement   bool // a write takes time between the leader's proposal and a majority's agreement
	Far         bool
	AtLeader    bool // the client's server is the leader
	Freezes     bool // the leader stands still; once it goes on, it sends the ping that it owes within a tick, but perhaps last
	LostTouches bool // one touch in a row gets lost in the server

	Rule Rule
}

// Rule is what a client makes of the answers that it gets.
type Rule interface {
	// Answered takes in a request of this connection that was answered just now.
	Answered(z *ZooKeeper, k *Known, e Exchange)
	// Connected takes in a new connection.
	Connected(z *ZooKeeper, k *Known, asked uint8)
	// Left returns for how many ticks the client believes in its session, if nothing more comes.
	Left(z *ZooKeeper, k *Known) int
	// Tidy drops what cannot matter any more, and returns how many exchanges, the oldest. earliest is the age of the oldest
	// request under way.
	Tidy(z *ZooKeeper, k *Known, earliest uint8) int
}

// Known is what a client knows. All times are ages in ticks, at most the timeout.
type Known struct {
	touched, commit uint8
	n               uint8
	exchanges       [maxExchanges]exchange // of this connection, in the order of their answers
}

const maxExchanges = 10

type exchange struct{ sent, answered uint8 }

// Exchange is a request that was answered just now.
type Exchange struct {
	Kind Kind
	Sent uint8 // how long ago
	Seen uint8 // how many of the exchanges that are known had been answered when it was sent
}

// Kind is a kind of request.
type Kind uint8

// The kinds of requests.
const (
	Write Kind = iota
	Sync
	Ping
	Greeting
)

var kinds = [...]string{"write", "sync", "ping", "request for a greeting"}

type request struct {
	kind  Kind
	stage stage
	sent  uint8
	seen  uint8
}

type stage uint8

const (
	toServer stage = iota
	atServer
	answered
)

type queue struct {
	bits uint32
	n    uint8
}

func (q *queue) push(what uint32, most int) bool {
	if int(q.n) >= most {
		return false
	}
	q.bits |= what << (2 * q.n)
	q.n++
	return true
}

func (q *queue) pop() uint32 {
	what := q.bits & 3
	q.bits >>= 2
	q.n--
	return what
}

// What the queues carry: to the leader a request of that kind (a Ping stands for the reply to the leader's ping, with a
// touch), to the server an answer or a ping.
const (
	answer  = 0
	aPing   = 1
	deepest = 10
)

const maxUnderWay = 3

type zkState struct {
	known    Known
	out      [maxUnderWay]request
	nOut     uint8
	up, down queue
	agreeing queue // what the leader has proposed, and syncs behind it
	age      uint8 // of the latest touch at the leader that the client's server follows
	newAge   uint8 // since another leader took over
	phase    uint8
	flags    uint8
}

const (
	touched = 1 << iota // the server has heard of the client
	due                 // the leader has to send a ping
	over
	deposed
	lost // the latest touch was lost
	frozen
)

func (s *zkState) is(f uint8) bool { return s.flags&f != 0 }

type zkMove = walk.Move[zkState]

// Search walks through all schedules of any length.
func (z ZooKeeper) Search(limit int) (walk.Result, bool) {
	first := zkState{flags: due}
	z.Rule.Connected(&z, &first.known, 0)
	return walk.Search(first, z.moves, func(*zkState) string { return "" }, limit)
}

// steps collects what may happen next.
type steps struct {
	z   *ZooKeeper
	all []zkMove
}

func (t *steps) add(what string, s zkState) {
	t.z.tidy(&s)
	m := zkMove{State: s, What: what, Sure: true}
	if s.is(over) && t.z.Rule.Left(t.z, &s.known) > 0 {
		m.Bad = "the next one is in, and the client believes"
	}
	t.all = append(t.all, m)
}

func (z *ZooKeeper) moves(s zkState) []zkMove {
	t := &steps{z: z, all: make([]zkMove, 0, 12)}
	if !s.is(over) {
		z.clientSends(t, &s)
		z.reconnects(t, &s)
		z.leaderActs(t, &s)
		z.leaderTakes(t, &s)
	}
	z.serverTakes(t, &s)
	z.clientTakes(t, &s)
	if !s.is(due) || s.is(frozen) || s.is(over) {
		c := s
		z.tick(&c)
		t.add("tick", c)
	}
	return t.all
}

func (z *ZooKeeper) clientSends(t *steps, s *zkState) {
	for i := range s.nOut {
		if s.out[i].stage == toServer {
			c := *s
			z.reachesServer(t, &c, i, "the server gets the "+kinds[s.out[i].kind])
			break
		}
	}
	if int(s.nOut) >= z.UnderWay || s.nOut > 0 && s.out[0].kind == Greeting {
		return
	}
	for _, k := range []Kind{Write, Sync, Ping} {
		if k == Sync && !z.Syncs || k == Ping && !z.Pings {
			continue
		}
		c := *s
		z.send(&c, k)
		if z.Far {
			t.add("the client sends a "+kinds[k], c)
			continue
		}
		z.reachesServer(t, &c, c.nOut-1, "the client sends a "+kinds[k]+", which its server gets")
	}
}

func (z *ZooKeeper) send(s *zkState, k Kind) {
	s.out[s.nOut] = request{kind: k, seen: s.known.n}
	s.nOut++
}

// reachesServer has the server take the client's i-th request.
func (z *ZooKeeper) reachesServer(t *steps, s *zkState, i uint8, what string) {
	before, kind := s.flags, s.out[i].kind
	s.out[i].stage = atServer
	if z.AtLeader {
		s.age = 0
		if kind == Ping {
			z.answerPings(s)
		} else if !z.leaderHas(s, kind) {
			return
		}
		z.passOn(s)
		t.add(what, *s)
		return
	}
	if kind == Ping {
		z.answerPings(s)
		z.passOn(s)
	} else if !s.up.push(uint32(kind), z.Queue) {
		return
	}
	if kind == Greeting {
		t.add(what, *s)
		return
	}
	s.flags = s.flags&^lost | touched
	t.add(what, *s)
	if z.LostTouches && before&lost == 0 {
		s.flags = before | lost
		t.add(what+"; its touch gets lost", *s)
	}
}

// answerPings has the server answer the pings behind which no other request waits.
func (z *ZooKeeper) answerPings(s *zkState) {
	for i := range s.nOut {
		r := &s.out[i]
		if r.stage == atServer && r.kind == Ping {
			r.stage = answered
		}
		if r.stage != answered {
			return
		}
	}
}

// passOn has the client take at once what was answered.
func (z *ZooKeeper) passOn(s *zkState) {
	for !z.Far && s.nOut > 0 && s.out[0].stage == answered {
		z.take(s)
	}
}

func (z *ZooKeeper) clientTakes(t *steps, s *zkState) {
	if z.Far && s.nOut > 0 && s.out[0].stage == answered {
		c := *s
		z.take(&c)
		t.add("the client gets the answer to its "+kinds[s.out[0].kind], c)
	}
}

// take has the client take the answer to its oldest request.
func (z *ZooKeeper) take(s *zkState) {
	r := s.out[0]
	copy(s.out[:], s.out[1:])
	s.nOut--
	s.out[s.nOut] = request{}
	if r.kind == Greeting {
		z.Rule.Connected(z, &s.known, r.sent)
		return
	}
	z.Rule.Answered(z, &s.known, Exchange{r.kind, r.sent, r.seen})
}

func (z *ZooKeeper) reconnects(t *steps, s *zkState) {
	if !z.Reconnects {
		return
	}
	fresh := *s
	fresh.out, fresh.nOut = [maxUnderWay]request{}, 0
	fresh.up, fresh.down, fresh.agreeing = queue{}, queue{}, queue{}
	fresh.flags &^= touched | lost
	z.send(&fresh, Greeting)
	c := fresh
	z.reachesServer(t, &c, 0, "the client connects again")
	if s.is(deposed) {
		c = fresh
		c.flags &^= deposed
		c.age, c.newAge = s.newAge, 0
		z.reachesServer(t, &c, 0, "the client connects to a server of the new leader")
	}
}

// leaderActs has leaders do what they do by themselves.
func (z *ZooKeeper) leaderActs(t *steps, s *zkState) {
	step := func(what string, change func(c *zkState) bool) {
		c := *s
		if change(&c) {
			t.add(what, c)
		}
	}
	if z.Freezes && !s.is(due) && !s.is(frozen) {
		step("the leader freezes", func(c *zkState) bool { c.flags |= frozen; return true })
	}
	if s.is(frozen) {
		step("the leader goes on", func(c *zkState) bool { c.flags &^= frozen; return true })
	}
	if s.is(due) && !s.is(frozen) {
		step("the leader sends a ping", func(c *zkState) bool {
			c.flags &^= due
			c.phase = 0
			return z.AtLeader || c.down.push(aPing, z.Queue)
		})
	}
	if z.Leaders && !s.is(deposed) {
		step("another leader takes over", func(c *zkState) bool { c.flags |= deposed; c.newAge = 0; return true })
	}
	if !s.is(deposed) && !s.is(frozen) && s.agreeing.n > 0 {
		step("a majority agrees to the write", func(c *zkState) bool {
			c.agreeing.pop()
			ok := z.respond(c)
			for ok && c.agreeing.n > 0 && c.agreeing.bits&3 == uint32(Sync) {
				c.agreeing.pop()
				ok = z.respond(c)
			}
			z.passOn(c)
			return ok
		})
	}
	if s.is(deposed) && int(s.newAge) == z.Timeout || !s.is(deposed) && !s.is(frozen) && int(s.age) == z.Timeout {
		step("THE LEADER ENDS THE SESSION", func(c *zkState) bool { c.flags |= over; return true })
	}
}

// leaderTakes has the leader take the next message from the server.
func (z *ZooKeeper) leaderTakes(t *steps, s *zkState) {
	if s.up.n == 0 || s.is(frozen) {
		return
	}
	c := *s
	switch what := Kind(c.up.pop()); what {
	case Ping:
		c.age = 0
		t.add("the leader gets the server's reply, and has heard of the session", c)
	case Greeting:
		c.age = 0
		fallthrough
	default:
		if z.leaderHas(&c, what) {
			t.add("the leader gets the "+kinds[what], c)
		}
	}
}

// leaderHas has the leader work on a request.
func (z *ZooKeeper) leaderHas(s *zkState, kind Kind) bool {
	switch {
	case kind == Write && (z.Agreement || s.is(deposed)), kind == Sync && s.agreeing.n > 0:
		return s.agreeing.push(uint32(kind), deepest)
	default:
		return z.respond(s)
	}
}

// respond has the leader answer what it took first.
func (z *ZooKeeper) respond(s *zkState) bool {
	if z.AtLeader {
		z.answerOne(s)
		return true
	}
	return s.down.push(answer, z.Queue)
}

// answerOne has the server answer the oldest request that is none of its own affairs.
func (z *ZooKeeper) answerOne(s *zkState) {
	for i := range s.nOut {
		if r := &s.out[i]; r.stage == atServer && r.kind != Ping {
			r.stage = answered
			break
		}
	}
	z.answerPings(s)
}

// serverTakes has the server take the next message from the leader.
func (z *ZooKeeper) serverTakes(t *steps, s *zkState) {
	if s.down.n == 0 {
		return
	}
	c := *s
	if c.down.pop() == answer {
		z.answerOne(&c)
		z.passOn(&c)
		t.add("the server gets the leader's answer", c)
		return
	}
	heard := c.is(touched)
	c.flags &^= touched
	switch {
	case !heard || c.is(over): // an empty reply changes nothing
		t.add("the server gets a ping", c)
	case c.up.push(uint32(Ping), z.Queue):
		t.add("the server gets a ping, and replies that it has heard of the client", c)
	}
}

func (z *ZooKeeper) tick(s *zkState) {
	most := uint8(z.Timeout)
	up := func(a *uint8) { *a = min(*a+1, most) }
	up(&s.known.touched)
	up(&s.known.commit)
	for i := range s.known.n {
		up(&s.known.exchanges[i].sent)
		up(&s.known.exchanges[i].answered)
	}
	for i := range s.nOut {
		up(&s.out[i].sent)
	}
	if !s.is(over) {
		up(&s.age)
		if s.is(deposed) {
			up(&s.newAge)
		}
		if s.phase = (s.phase + 1) % uint8(z.Ping); s.phase == 0 {
			s.flags |= due
		}
	}
}

// tidy drops what can make no difference any more, so that states that behave alike are alike.
func (z *ZooKeeper) tidy(s *zkState) {
	if s.is(over) { // what is on its way to the leader is in vain
		s.flags = over
		s.up, s.agreeing, s.age, s.newAge, s.phase = queue{}, queue{}, 0, 0, 0
	}
	if s.is(deposed) { // that leader's own count is nobody's concern
		s.age = 0
	}
	earliest := uint8(0)
	if s.nOut > 0 {
		earliest = s.out[0].sent
	}
	dropped := z.Rule.Tidy(z, &s.known, earliest)
	s.drop(0, uint8(dropped))
	for i := uint8(0); i+1 < s.known.n; {
		if s.known.exchanges[i].answered == s.known.exchanges[i+1].answered && !s.between(i+1) {
			s.drop(i, 1) // the next one was sent later
		} else {
			i++
		}
	}
}

// between reports whether a request under way was sent when just that many exchanges had been answered.
func (s *zkState) between(seen uint8) bool {
	for i := range s.nOut {
		if s.out[i].seen == seen {
			return true
		}
	}
	return false
}

// drop forgets n exchanges from the i-th on.
func (s *zkState) drop(i, n uint8) {
	if n == 0 {
		return
	}
	k := &s.known
	copy(k.exchanges[i:], k.exchanges[i+n:k.n])
	for j := k.n - n; j < k.n; j++ {
		k.exchanges[j] = exchange{}
	}
	k.n -= n
	for j := range s.nOut {
		if r := &s.out[j]; r.seen > i {
			r.seen -= min(n, r.seen-i)
		}
	}
}
