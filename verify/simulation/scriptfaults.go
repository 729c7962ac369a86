package simulation

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Kind is a fault that a Script may have.
type Kind struct {
	name      string
	needs     func(*script, parcel) bool // what must be there to break; p is the parcel about to arrive, if there is one
	breaks    func(*script, parcel)
	slowClock bool // the service's clock is slow in the whole run
	brief     bool // nothing is slow afterwards, so a wake-up that was lost shows sooner: before somebody looks without one
}

// kinds are the faults that every far side has. Those that need a parcel befall the one that is about to arrive.
var kinds = []*Kind{
	// It never arrives; where the service keeps order the connection breaks with it.
	{name: "lost", needs: losable, breaks: (*script).lose},
	// A request arrives, and its answer does not.
	{name: "unacked", needs: request, breaks: (*script).loseAnswer},
	// Its sender hears that it is lost, and it arrives a little later.
	{name: "late", needs: reorderable, breaks: lateBy(3 * time.Millisecond)},
	// The same, and everything else arrives before it.
	{name: "later", needs: reorderable, breaks: lateBy(scriptTTL / 10)},
	// It arrives, and once more when everything else has.
	{name: "again", needs: repeatable, breaks: func(s *script, p parcel) { s.late(p, scriptTTL/10, s.repeat) }},
	// Its direction of the link stands still for a fifth of the TTL.
	{name: "delayed", needs: anything, breaks: func(s *script, p parcel) { s.scheduler.freeze(p.link, p.dir, scriptTTL/5) }},
	// An event arrives twice.
	{name: "twice", needs: event, breaks: func(_ *script, p parcel) { p.arrive() }},
	// The connection breaks when all that was sent has arrived; another replica serves, which lags behind.
	{name: "cut", brief: true, needs: anything, breaks: func(s *script, p parcel) { s.cut(p.link, 1<<30) }},
	// Nothing passes its link, for longer than the session lives.
	{name: "stalls", needs: anything, breaks: stall(toService | toDriver)},
	// No requests pass its link, for that long.
	{name: "mute", needs: anything, breaks: stall(toService)},
	// No answers and events pass, for that long.
	{name: "deaf", needs: anything, breaks: stall(toDriver)},
	// Its server is cut off from the others, for longer than the session lives, and goes on answering renewals.
	{name: "strands", needs: aServer, breaks: strand(outlastsSessions, false)},
	// The same for a while, and then another server is asked.
	{name: "moves", needs: aServer, breaks: strand(scriptTTL*2/3, true)},
	// The answers are held back, and then no request passes: the deadline must count from the sending.
	{name: "tardy", needs: anything, breaks: (*script).delayAnswers},
	// The service is frozen for half the TTL.
	{name: "freezes", needs: nothing, breaks: freezeAll(scriptTTL / 2)},
	// It is frozen for longer than sessions live; they end as soon as it goes on.
	{name: "outage", needs: nothing, breaks: freezeAll(outlastsSessions)},
	// The same, and the service's clock is slow.
	{name: "slowclock", needs: nothing, breaks: freezeAll(outlastsSessions), slowClock: true},
	// A store's clock is set forward by a TTL, for good; and back.
	{name: "ahead", needs: aStore, breaks: setClock(scriptTTL)},
	{name: "back", needs: aStore, breaks: setClock(-scriptTTL)},
	// A stranger tells everybody that it is his turn; and that he was removed, and his session is over.
	{name: "lures", needs: aStore, breaks: lie("T")},
	{name: "alarms", needs: aStore, breaks: lie("RX")},
	// The service ends the session out of the blue.
	{name: "expires", needs: anything, breaks: func(s *script, p parcel) {
		s.takeAway(func() { s.service.ExpireLink(p.link) })
	}},
	// A watch is refused, once.
	{name: "refused", brief: true, needs: aWatch, breaks: (*script).refuse},
	// The context of the one concerned ends.
	{name: "cancelled", needs: anything, breaks: (*script).cancel},
	// Its client is closed.
	{name: "closes", needs: anything, breaks: (*script).closeClient},
	// Its client is shut down.
	{name: "retires", needs: anything, breaks: (*script).shutClientDown},
	// An operator removes the node at the head of the line.
	{name: "first", needs: aNode, breaks: func(s *script, _ parcel) { s.remove(s.nodes()[0]) }},
	// Or the last one.
	{name: "last", needs: aNode, breaks: func(s *script, _ parcel) { s.remove(s.nodes()[len(s.nodes())-1]) }},
	// Somebody writes to the second node, then its owner gives up, and the third hears of both at once.
	{name: "meddled", needs: standing(3), breaks: (*script).meddle},
	// What is told to the second in line is held back for a moment, and then arrives at once.
	{name: "bunched", needs: standing(2), breaks: func(s *script, _ parcel) { s.bunch(s.ownerOf(s.nodes()[1])) }},
	// The node at the head is removed, and then its owner's requests stall.
	{name: "firstmute", needs: aNode, breaks: func(s *script, _ parcel) {
		head := s.nodes()[0]
		s.scheduler.freeze(s.ownerOf(head), toService, outlastsSessions)
		s.remove(head)
	}},
}

const outlastsSessions = scriptTTL * 3 / 2

// kinds are all the faults there are on a far side.
func (p Profile) kinds() []*Kind {
	switch p {
	case ZooKeeper:
		return slices.Concat(kinds, ensembleKinds)
	case Etcd:
		return slices.Concat(kinds, etcdKinds)
	}
	return kinds
}

// kindOf returns the Kind of that name, or nil.
func (p Profile) kindOf(name string) *Kind {
	for _, k := range p.kinds() {
		if k.name == name {
			return k
		}
	}
	return nil
}

// breakIt breaks something, and reports whether there was anything to break.
func (s *script) breakIt(k *Kind) bool {
	p, _ := s.next()
	if !k.needs(s, p) {
		return false
	}
	k.breaks(s, p)
	return true
}

// What a fault may need.

func nothing(*script, parcel) bool { return true }

func anything(_ *script, p parcel) bool { return p.arrive != nil }

// event is true for an event, which may arrive twice; but a stream of gRPC tells each once.
func event(s *script, p parcel) bool { return p.isEvent() && s.cfg.Profile != Etcd }

func request(_ *script, p parcel) bool { return p.dir == toService }

// losable is true for everything but the events of registers: a note is lost only if its listener hears of that.
func losable(s *script, p parcel) bool {
	return anything(s, p) && (s.keepsOrder() || !p.isEvent() || s.cfg.Profile == Etcd)
}

// reorderable is true for a request that others may overtake.
func reorderable(s *script, p parcel) bool { return request(s, p) && p.stream == "" && !s.keepsOrder() }

// repeatable is true for a request that the service must bear to get twice.
func repeatable(s *script, p parcel) bool {
	return request(s, p) && p.stream == ""
}

// aServer is true where there are several servers, so that one may be cut off from the others.
func aServer(s *script, p parcel) bool { return anything(s, p) && s.cfg.Profile.hasServers() }

// aStore is true where a driver goes by a store's clock.
func aStore(s *script, p parcel) bool { return anything(s, p) && s.cfg.Profile == Register }

// aWatch is true for what a service may refuse: on ZooKeeper requests for watches, elsewhere any request.
func aWatch(s *script, p parcel) bool {
	return p.dir == toService && (strings.HasPrefix(p.what, "watch") || s.cfg.Profile == Register || s.cfg.Profile == Etcd)
}

// standing is true if that many nodes stand, where somebody can write to one of them.
func standing(n int) func(*script, parcel) bool {
	return func(s *script, _ parcel) bool { return s.cfg.Profile != Register && len(s.nodes()) >= n }
}

func aNode(s *script, _ parcel) bool { return len(s.nodes()) > 0 }

func (s *script) keepsOrder() bool { return s.cfg.Profile.keepsOrder() }

func (s *script) nodes() []driver.Node { return s.service.Nodes(s.lines[0]) }

// What befalls parcels.

func (s *script) lose(p parcel) {
	if s.keepsOrder() {
		s.cut(p.link, 0)
		return
	}
	s.scheduler.take(p)
	p.lose()
}

func (s *script) loseAnswer(p parcel) {
	if s.keepsOrder() {
		s.cut(p.link, 1)
		return
	}
	s.scheduler.take(p)
	p.arrive()
	answer := p
	answer.dir = toDriver
	for _, back := range s.scheduler.ready() {
		if back.compare(answer) == 0 {
			s.scheduler.take(back)
			back.lose()
		}
	}
}

func lateBy(d time.Duration) func(*script, parcel) {
	return func(s *script, p parcel) { s.late(p, d, s.scheduler.postpone) }
}

func (s *script) late(p parcel, d time.Duration, put func(parcel)) {
	until := time.Now().Add(d)
	s.due[p.late().String()] = until
	put(p)
	s.broken = later(s.broken, until)
}

// What befalls links.

func stall(dir direction) func(*script, parcel) {
	return func(s *script, p parcel) { s.scheduler.freeze(p.link, dir, outlastsSessions) }
}

func (s *script) delayAnswers(p parcel) {
	s.scheduler.delayAnswers(p.link, s.tardy(), outlastsSessions)
}

func setClock(by time.Duration) func(*script, parcel) {
	return func(s *script, _ parcel) { s.service.(*registers).clock.set(by) }
}

func lie(lies string) func(*script, parcel) {
	return func(s *script, _ parcel) {
		s.nap = outlastsSessions // who cannot ask whether it is true gives up, and what it held is left to the TTL
		for _, n := range s.nodes() {
			for _, what := range []byte(lies) {
				s.service.(*registers).lie(n, what)
			}
		}
	}
}

func freezeAll(d time.Duration) func(*script, parcel) {
	return func(s *script, _ parcel) {
		for _, c := range s.clients {
			s.scheduler.freeze(c.name, toService|toDriver, d)
		}
	}
}

func strand(d time.Duration, moves bool) func(*script, parcel) {
	return func(s *script, p parcel) {
		if s.strand(p.link, d, moves) {
			s.broken = later(s.broken, time.Now().Add(d))
		}
	}
}

func (s *script) refuse(p parcel) {
	s.mu.Lock()
	s.denials[p.link] = true
	s.mu.Unlock()
	if s.cfg.Profile == Etcd {
		s.nap = scriptTTL * 3 / 5 // a watch that was refused is asked for again within a second
	}
	s.service.Refuse(p.link)
}

// What befalls nodes.

func (s *script) meddle(parcel) {
	nodes := s.nodes()
	s.scheduler.freeze(s.ownerOf(nodes[2]), toDriver, long/10)
	s.service.Write(nodes[1].ID, []byte("an operator was here"))
	s.cancel(parcel{link: s.ownerOf(nodes[1])})
}

func (s *script) remove(n driver.Node) { s.takeAway(func() { s.service.Remove(n.ID) }) }

func (s *script) ownerOf(n driver.Node) string {
	for _, c := range s.clients {
		if s.service.LinkOf(n.ID) == c.name {
			return c.name
		}
	}
	return ""
}

// Those who go away in the middle of it.

func (s *script) clientOf(p parcel) *client {
	return s.clients[slices.IndexFunc(s.clients, func(c *client) bool { return c.name == p.link })]
}

func (s *script) cancel(p parcel) {
	s.mu.Lock()
	cancel := s.cancels[p.link]
	s.mu.Unlock()
	cancel()
}

func (s *script) closeClient(p parcel) {
	c := s.clientOf(p)
	s.nap = outlastsSessions // what it held is left to the TTL
	go func() {
		began := time.Now()
		c.Close()
		s.inTime(c.name, "Close", began.Add(2*c.driver.RequestTimeout()))
	}()
}

func (s *script) shutClientDown(p parcel) {
	c := s.clientOf(p)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), scriptTTL)
		defer cancel()
		began := time.Now()
		c.Shutdown(ctx)
		s.inTime(c.name, "Shutdown", began.Add(scriptTTL))
	}()
}
