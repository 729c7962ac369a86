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
}

// Kinds are all the faults there are. Those that need a parcel befall the one that is about to arrive.
var Kinds = []*Kind{
	// It never arrives; where the service keeps order the connection breaks with it.
	{name: "lost", needs: losable, breaks: (*script).lose},
	// An event never arrives, and nothing tells that it did not.
	{name: "unheard", needs: unreliable, breaks: (*script).loseEvent},
	// A request arrives, and its answer does not.
	{name: "unacked", needs: request, breaks: (*script).loseAnswer},
	// Its sender hears that it is lost, and it arrives a little later.
	{name: "late", needs: reorderable, breaks: lateBy(3 * time.Millisecond)},
	// The same, and everything else arrives before it.
	{name: "later", needs: reorderable, breaks: lateBy(scriptTTL / 10)},
	// It arrives, and once more when everything else has.
	{name: "again", needs: repeatable, breaks: func(s *script, p parcel) {
		s.late(p, scriptTTL/10, s.scheduler.repeat)
	}},
	// Its direction of the link stands still for a fifth of the TTL.
	{name: "delayed", needs: anything, breaks: func(s *script, p parcel) { s.scheduler.freeze(p.link, p.dir, scriptTTL/5) }},
	// An event arrives twice.
	{name: "twice", needs: event, breaks: func(_ *script, p parcel) { p.arrive() }},
	// The connection breaks when all that was sent has arrived; another replica serves, which lags behind.
	{name: "cut", needs: anything, breaks: func(s *script, p parcel) { s.cut(p.link, 1<<30) }},
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
	// The service ends the session out of the blue.
	{name: "expires", needs: anything, breaks: func(s *script, p parcel) {
		s.takeAway(func() { s.service.ExpireLink(p.link) })
	}},
	// A watch is refused, once.
	{name: "refused", needs: aWatch, breaks: (*script).refuse},
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
	{name: "meddled", needs: threeNodes, breaks: (*script).meddle},
	// The leader is killed, and comes back as one of the others.
	{name: "deposed", needs: anEnsemble, breaks: func(s *script, _ parcel) { s.lasts(scriptTTL/2, s.depose()) }},
	// The link's server is killed, and comes back when no session has been on it for long.
	{name: "away", needs: anEnsemble, breaks: func(s *script, p parcel) { s.lasts(outlastsSessions, s.ensemble().kill(p.link)) }},
	// Nothing that the link's server hears of the others arrives, while they hear it.
	{name: "deafened", needs: anEnsemble, breaks: func(s *script, p parcel) { s.lasts(scriptTTL*2/3, s.ensemble().deafen(p.link)) }},
	// The connection breaks, and all servers grant less from then on.
	{name: "shorter", needs: anEnsemble, breaks: func(s *script, p parcel) {
		s.ensemble().grant(scriptTTL * 2 / 3)
		s.cut(p.link, 1<<30)
	}},
	// Answers and news are held back for a fifth of the TTL, and then arrive all at once.
	{name: "together", needs: anEnsemble, breaks: func(s *script, p parcel) { s.lasts(scriptTTL/5, s.scheduler.hold(p.link)) }},
	// An operator puts a backup of a moment ago back, and the clients have seen more than that.
	{name: "restored", needs: anEnsemble, breaks: func(s *script, _ parcel) { s.restore(3, 0) }},
	// The same, and the service has gone on before they ask it again.
	{name: "relapsed", needs: anEnsemble, breaks: func(s *script, _ parcel) { s.restore(3, 1000) }},
	// The node at the head is removed, and then its owner's requests stall.
	{name: "firstmute", needs: aNode, breaks: func(s *script, _ parcel) {
		head := s.nodes()[0]
		s.scheduler.freeze(s.ownerOf(head), toService, outlastsSessions)
		s.remove(head)
	}},
}

const outlastsSessions = scriptTTL * 3 / 2

// kindOf returns the Kind of that name, or nil.
func kindOf(name string) *Kind {
	if i := slices.IndexFunc(Kinds, func(k *Kind) bool { return k.name == name }); i >= 0 {
		return Kinds[i]
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

func event(_ *script, p parcel) bool { return p.isEvent() }

// unreliable is an event that may be lost though the connection stands: a store has to say so, and one of TCP breaks.
func unreliable(s *script, p parcel) bool { return event(s, p) && !s.cfg.Profile.ships() }

func request(_ *script, p parcel) bool { return p.dir == toService }

// losable is true for all but events of a service that keeps no order: there, a watch goes on from where it was.
func losable(s *script, p parcel) bool { return anything(s, p) && (s.keepsOrder() || !event(s, p)) }

// reorderable is true for a request that others may overtake.
func reorderable(s *script, p parcel) bool { return request(s, p) && !s.keepsOrder() }

// repeatable is what a store must bear to get twice.
func repeatable(s *script, p parcel) bool { return request(s, p) && s.cfg.Profile == Register }

// aServer is one of several, of which some may be cut off from the others.
func aServer(s *script, p parcel) bool { return anything(s, p) && s.cfg.Profile.hasServers() }

// anEnsemble speaks ZooKeeper's protocol.
func anEnsemble(s *script, p parcel) bool { return anything(s, p) && s.cfg.Profile == ZooKeeper }

// aWatch is what a service may refuse. A store may refuse anything.
func aWatch(s *script, p parcel) bool {
	return p.dir == toService && (strings.HasPrefix(p.what, "watch") || s.cfg.Profile == Register)
}

// threeNodes are needed where somebody can write to one of them.
func threeNodes(s *script, _ parcel) bool { return s.cfg.Profile != Register && len(s.nodes()) > 2 }

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

func (s *script) loseEvent(p parcel) {
	s.scheduler.take(p)
	s.nap = scriptTTL // until the waiter polls
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
