package simulation

import (
	"context"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/internal/memory"
)

// Kinds are the faults that a Script may have. Those that need a parcel befall the one that is about to arrive.
var Kinds = []string{
	"lost",      // it never arrives; where the service keeps order the connection breaks with it
	"unheard",   // an event never arrives, and nothing tells that it did not
	"unacked",   // a request arrives, and its answer does not
	"late",      // its sender hears that it is lost, and it arrives a little later
	"later",     // the same, and everything else arrives before it
	"delayed",   // its way of the link stands for a fifth of the TTL
	"twice",     // an event arrives twice
	"cut",       // the connection breaks when all that was sent has arrived; another replica serves, which lags behind
	"stalls",    // nothing passes its link, for longer than the session lives
	"mute",      // no requests pass its link, for as long
	"deaf",      // no answers and events do
	"tardy",     // the answers are held back, and then no request passes: the deadline must count from the sending
	"freezes",   // the service is frozen for half the TTL
	"outage",    // and for longer than sessions live, which then end, as soon as it goes on
	"slowclock", // the same, and the service's clock is slow
	"expires",   // the service ends the session out of the blue
	"cancelled", // the context of the one concerned ends
	"closes",    // its client is closed
	"retires",   // its client is shut down
	"first",     // an operator removes the node at the head of the line
	"last",      // or the last one
	"firstmute", // the node at the head is removed, and then its owner's requests stall
}

// breaks breaks something, and reports whether there was anything to break.
func (s *script) breaks(kind string) bool {
	p, some := s.next()
	event := some && strings.HasPrefix(p.what, "event ")
	request := some && p.dir == toService
	ordered := s.cfg.Profile == memory.ZooKeeper
	switch kind {
	case "lost":
		if !some {
			return false
		}
		if ordered {
			s.scheduler.cut(p.link, 0)
			s.service.Reconnect(p.link)
			return true
		}
		if event {
			return false // a watch goes on where it was
		}
		s.scheduler.take(p)
		p.lose()
	case "unheard":
		if !event {
			return false
		}
		s.scheduler.take(p)
		s.nap = s.cfg.TTL // until the waiter looks without being told
	case "unacked":
		if !request {
			return false
		}
		if ordered {
			s.scheduler.cut(p.link, 1)
			s.service.Reconnect(p.link)
			return true
		}
		s.scheduler.take(p)
		p.arrive()
		for _, back := range s.scheduler.ready() {
			if back.dir == toDriver && back.link == p.link && back.who == p.who && back.what == p.what && back.n == p.n {
				s.scheduler.take(back)
				back.lose()
			}
		}
	case "late", "later":
		if !request || ordered {
			return false
		}
		d := 3 * time.Millisecond
		if kind == "later" {
			d = s.cfg.TTL / 10
		}
		p.what += " (late)"
		s.due[p.String()] = time.Now().Add(d)
		p.what = strings.TrimSuffix(p.what, " (late)")
		s.scheduler.postpone(p)
		s.broken = later(s.broken, time.Now().Add(d))
	case "delayed":
		return s.hold(some, p.link, p.dir, s.cfg.TTL/5)
	case "twice":
		if !event {
			return false
		}
		p.arrive()
	case "cut":
		if !some {
			return false
		}
		s.scheduler.cut(p.link, 1<<30)
		s.service.Reconnect(p.link)
	case "stalls":
		return s.hold(some, p.link, toService|toDriver, s.cfg.TTL*3/2)
	case "mute":
		return s.hold(some, p.link, toService, s.cfg.TTL*3/2)
	case "deaf":
		return s.hold(some, p.link, toDriver, s.cfg.TTL*3/2)
	case "tardy":
		if !some {
			return false
		}
		d := s.clients[0].driver.RequestTimeout() * 4 / 5
		s.scheduler.delayAnswers(p.link, d, s.cfg.TTL*3/2)
	case "freezes", "outage", "slowclock":
		d := s.cfg.TTL / 2
		if kind != "freezes" {
			d *= 3
		}
		for _, c := range s.clients {
			s.hold(true, c.name, toService|toDriver, d)
		}
	case "expires":
		if !some {
			return false
		}
		s.takeAway(func() { s.service.ExpireLink(p.link) })
	case "cancelled", "closes", "retires":
		if !some {
			return false
		}
		s.quits(kind, p.link)
	case "first", "last", "firstmute":
		nodes := s.service.Nodes(s.lines[0])
		if len(nodes) == 0 {
			return false
		}
		n := nodes[0]
		if kind == "last" {
			n = nodes[len(nodes)-1]
		}
		if kind == "firstmute" {
			s.hold(true, s.ownerOf(n), toService, s.cfg.TTL*3/2)
		}
		s.takeAway(func() { s.service.Remove(n.ID) })
	}
	return true
}

func (s *script) hold(some bool, link string, dir direction, d time.Duration) bool {
	if some {
		s.scheduler.freeze(link, dir, d)
	}
	return some
}

func (s *script) ownerOf(n driver.Node) string {
	for _, c := range s.clients {
		if s.service.LinkOf(n.ID) == c.name {
			return c.name
		}
	}
	return ""
}

// quits lets one go away in the midst of it.
func (s *script) quits(how, link string) {
	for _, c := range s.clients {
		if c.name != link {
			continue
		}
		switch how {
		case "cancelled":
			s.mu.Lock()
			cancel := s.cancels[c.name]
			s.mu.Unlock()
			cancel()
		case "closes":
			s.nap = s.cfg.TTL * 3 / 2 // what it held is left to the TTL
			go func() {
				began := time.Now()
				c.Close()
				s.inTime(c.name, "Close", began.Add(2*c.driver.RequestTimeout()))
			}()
		case "retires":
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), s.cfg.TTL)
				defer cancel()
				began := time.Now()
				c.Shutdown(ctx)
				s.inTime(c.name, "Shutdown", began.Add(s.cfg.TTL))
			}()
		}
	}
}
