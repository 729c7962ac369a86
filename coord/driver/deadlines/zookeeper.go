package deadlines

import "time"

// Link is a request that ZooKeeper's leader has answered: a write that was committed, or a sync. What a server answers by
// itself, such as a read or a ping, is none.
type Link struct {
	Sent     time.Duration // read from the clock before the request was sent
	Answered time.Duration // read after its answer had arrived
	Commit   bool          // a majority has agreed to it: a write, not a sync
}

// Links says until when a ZooKeeper session with timeout T is sure, from what happened on its connection.
//
// The leader ends a session T after it last heard of it, and it hears of it in pings only: each half tick it pings every
// server, and the server's reply names the sessions that it has heard from. A write that is passed on to the leader does not
// count there. So what a client knows by itself is not enough: its server hears it, but the reply may never get to the leader.
//
// Three links a, b and c of one connection show that such a reply did arrive. If
//
//	b was sent more than T/4 + T/50 after a was answered, and
//	c was sent after b was answered,
//
// then the session is sure until T - T/50 after a was sent. For in the gap between a and b the leader has sent a ping. It
// went to the server ahead of b's answer, and the server's reply, which names the session since it had heard a, went to the
// leader ahead of c. And c was answered, so the reply had arrived.
//
// One thing is missing: a leader that another has replaced goes on answering syncs. So besides, a session is never sure for
// longer than T - T/50 after the latest commit was sent. A new leader gives each session the whole of T.
//
// A new connection needs no links: before the server greets the client it asks the leader, and that counts as hearing of the
// session. So the session is sure until T - T/50 after the greeting was asked for, as far as a commit allows.
//
// This assumes that
//   - the leader pings its servers at least each T/4: T is two ticks or more, unless minSessionTimeout is set lower
//   - what the leader and a server send to each other arrives in order, and a client's connection stays with one leader
//   - the clocks of the client and the leader run at the same rate, but for one part in a hundred
//   - the leader is not stopped for the whole of a gap. If it was, and its ping is then later than two more round trips, and
//     the server's replies are lost from that moment on, the session may end early
//   - the server talks to the leader itself, not to an observer that serves as its master.
type Links struct {
	timeout time.Duration
	touched time.Duration // when that was sent of which the leader surely knows
	commit  time.Duration // when the latest commit was sent
	links   []Link        // of this connection; of several that came close together only the last
}

// Connected records a new connection whose greeting was asked for at that time, and the timeout that the greeting grants. It
// returns until when the session is sure. The first connection makes the session, to which a majority agrees. At later ones
// the links of those before no longer count. If a server grants less than the ones before, that is the timeout from now on.
func (l *Links) Connected(sent, timeout time.Duration) time.Duration {
	if l.timeout == 0 {
		l.timeout, l.commit = timeout, sent
	}
	l.timeout = min(l.timeout, timeout)
	l.links = l.links[:0]
	l.touched = max(l.touched, sent)
	return l.Until()
}

// Answered records a link, and returns until when the session is sure. It takes links in the order of their answers. It
// never returns less than before, unless the timeout was cut.
func (l *Links) Answered(c Link) time.Duration {
	if c.Commit {
		l.commit = max(l.commit, c.Sent)
	}
	if a, found := l.chainTo(c); found {
		l.touched = max(l.touched, a.Sent)
	}
	l.keep(c)
	return l.Until()
}

// Until returns until when the session is sure; that may have passed.
func (l *Links) Until() time.Duration {
	return min(l.touched, l.commit) + l.timeout - l.timeout/50
}

// gap is longer than from one ping of the leader to the next.
func (l *Links) gap() time.Duration { return l.timeout/4 + l.timeout/50 }

// chainTo returns the latest a of three links a, b, c.
func (l *Links) chainTo(c Link) (a Link, found bool) {
	b, found := l.latest(func(b Link) bool { return b.Answered < c.Sent })
	if !found {
		return Link{}, false
	}
	return l.latest(func(a Link) bool { return a.Answered+l.gap() < b.Sent })
}

// latest returns the latest link that fits. Later links were sent later as well, so the latest is the best.
func (l *Links) latest(fits func(Link) bool) (Link, bool) {
	for i := len(l.links) - 1; i >= 0; i-- {
		if fits(l.links[i]) {
			return l.links[i], true
		}
	}
	return Link{}, false
}

// keep remembers a link as long as it can be of use, and at most two in a 64th of the timeout.
func (l *Links) keep(c Link) {
	old := 0
	for old < len(l.links) && l.links[old].Sent < c.Answered-l.timeout {
		old++
	}
	l.links = append(l.links[:0], l.links[old:]...)
	n := len(l.links)
	switch {
	case n > 0 && c.Sent <= l.links[n-1].Sent: // that one was sent later and answered before
	case n > 1 && c.Answered-l.links[n-2].Answered < l.timeout/64:
		l.links[n-1] = c
	default:
		if n > 0 {
			c.Answered = max(c.Answered, l.links[n-1].Answered)
		}
		l.links = append(l.links, c)
	}
}

// How often links are needed, in parts of the timeout. Three that are a seventh of it apart, a little more for round trips,
// leave at least 0.42 of it at any time.
const (
	timeoutParts  = 100
	linkEvery     = 14 // while something depends on the session
	idleLinkEvery = 28 // while nothing does
	leastLeft     = 34 // if less is left of the timeout, a link that helps is due at once
	gapWait       = 6  // how long to wait for a gap
	commitEvery   = 32 // each link that comes so long after the latest commit was sent is to be one
)

func (l *Links) part(p int) time.Duration { return l.timeout * time.Duration(p) / timeoutParts }

// Next returns when the next link is due, and whether it has to be a commit or may be a sync; zero: at once. Links of the
// application count, so a session that is busy needs no others. Call it again after each answer. The link that it asks for is
// sent when nothing else of its kind is under way.
//
// needed says whether something depends on the session. If so there are about seven links in a timeout, one in three of them
// a commit, and 0.4 of the timeout or more is left at any time while round trips take no more than 0.01 of it. If not, there
// is a sync each 0.28. Then a write that needs the session after all is c, to two syncs before it, and leaves 0.4 or more.
func (l *Links) Next(needed bool) (at time.Duration, commit bool) {
	n := len(l.links)
	if n == 0 {
		return 0, needed
	}
	last := l.links[n-1]
	if !needed {
		return max(last.Sent+l.part(idleLinkEvery), last.Answered+l.gap()+1), false
	}
	at = last.Sent + l.part(linkEvery)
	for _, a := range l.links {
		if met := a.Answered + l.gap() + 1; met > at && met <= last.Sent+l.part(linkEvery+gapWait) {
			at = met
			break
		}
	}
	if a, found := l.chainTo(Link{Sent: last.Answered + 1}); found && a.Sent > l.touched {
		at = min(at, max(last.Answered+1, l.Until()-l.part(leastLeft)))
	}
	return at, at > l.commit+l.part(commitEvery)
}
