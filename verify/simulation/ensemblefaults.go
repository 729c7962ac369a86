package simulation

import (
	"fmt"
	"time"

	"github.com/turnwise/turnwise/verify/simulation/zookeeper"
)

// What may befall a ZooKeeper ensemble, beyond the faults that every far side has.

// ensembleKinds are the faults that only an ensemble has.
var ensembleKinds = []*Kind{
	// The leader is killed, and comes back as one of the others.
	{name: "deposed", needs: anything, breaks: func(s *script, _ parcel) { s.lasts(scriptTTL/2, s.depose()) }},
	// A server dies over the next proposal, and comes back when no session has been on it for long; see zookeeper.Stage.
	{name: "unspread", needs: anything, breaks: dooms(zookeeper.Unspread)},
	{name: "spread", needs: anything, breaks: dooms(zookeeper.Spread)},
	{name: "unheard", needs: anything, breaks: dooms(zookeeper.Unheard)},
	{name: "untold", needs: anything, breaks: dooms(zookeeper.Untold)},
	{name: "told", needs: anything, breaks: dooms(zookeeper.Told)},
	{name: "forgotten", needs: anything, breaks: dooms(zookeeper.Forgotten)},
	{name: "unmade", needs: anything, breaks: dooms(zookeeper.Unmade)},
	// The link's server is killed, and comes back when no session has been on it for long.
	{name: "away", needs: anything, breaks: func(s *script, p parcel) { s.lasts(outlastsSessions, s.ensemble().kill(p.link)) }},
	// Nothing that the others say to the link's server arrives, while they hear it.
	{name: "deafened", needs: anything, breaks: func(s *script, p parcel) { s.lasts(scriptTTL*2/3, s.ensemble().deafen(p.link)) }},
	// What the leader says to the link's server is late; then what that one says to the leader, for longer than sessions live.
	{name: "turned", needs: anything, breaks: turnRound(false)},
	// The same, and soon after that they do not hear each other at all.
	{name: "parted", needs: anything, breaks: turnRound(true)},
	// The connection breaks, and all servers grant less from then on.
	{name: "shorter", needs: anything, breaks: func(s *script, p parcel) {
		s.ensemble().grant(scriptTTL * 2 / 3)
		s.cut(p.link, 1<<30)
	}},
	// An operator takes rights to the line away from everybody, and gives them back.
	{name: "denied", needs: anything, breaks: func(s *script, _ parcel) { s.deny(zkRoot+"/"+stage, "ra", scriptTTL*2/3) }},
	// An operator removes the line with all that is in it; and the root.
	{name: "razed", needs: anything, breaks: func(s *script, _ parcel) { s.raze(zkRoot + "/" + stage) }},
	{name: "uprooted", needs: anything, breaks: func(s *script, _ parcel) { s.raze(zkRoot) }},
	// Answers and news are held back for a fifth of the TTL, and then arrive all at once.
	{name: "together", needs: anything, breaks: func(s *script, p parcel) { s.lasts(scriptTTL/5, s.scheduler.hold(p.link)) }},
	// An operator puts back a backup from a moment ago, and the clients have seen more than that.
	{name: "restored", needs: anything, breaks: func(s *script, _ parcel) { s.putBackOld(3, 0) }},
	// The same, and the service has gone on before they ask it again.
	{name: "relapsed", needs: anything, breaks: func(s *script, _ parcel) { s.putBackOld(3, 1000) }},
}

// ensembleFault breaks something on an ensemble, in a run that a seed decides.
func (w *world) ensembleFault(c *client) string {
	d := time.Duration(w.rand.Int64N(int64(2 * w.cfg.TTL)))
	switch w.rand.IntN(9) {
	case 8:
		p := zkRoot + "/" + w.lines[w.rand.IntN(len(w.lines))]
		if w.rand.IntN(4) == 0 {
			p = zkRoot
		}
		w.raze(p)
		return fmt.Sprintf("FAULT an operator removes %s with all that is in it", p)
	case 7:
		return w.denySome(d)
	case 0:
		if w.rand.IntN(2) == 0 {
			stage := zookeeper.Stage(w.rand.IntN(zookeeper.Stages))
			w.lasts(d, w.ensemble().zk.Doom(stage))
			return fmt.Sprintf("FAULT a server dies over the next proposal, at stage %d, and is away until %v from now", stage, d)
		}
		return w.dies(w.ensemble().zk.Leader(), d)
	case 1:
		return w.dies(w.ensemble().zk.MemberOf(c.name), d)
	case 2:
		w.lasts(d, w.ensemble().deafen(c.name))
		return fmt.Sprintf("FAULT the server of %s does not hear the others for %v", c.name, d)
	case 3:
		w.lasts(d/8, w.scheduler.hold(c.name))
		return fmt.Sprintf("FAULT all that %s is told in %v comes at once", c.name, d/8)
	case 4, 5:
		return w.holdWay(c)
	}
	if w.rand.IntN(6) > 0 || w.servers.Version.Minor < 6 { // there a session cannot ask which nodes it has: see coord/zk
		return ""
	}
	back, since := 1+w.rand.IntN(20), w.rand.IntN(2)*1000
	w.putBackOld(back, since)
	return fmt.Sprintf("FAULT a backup of %d transactions ago is put back, and then there are %d others", back, since)
}

// dies kills a server, and perhaps loses some of its last words.
func (w *world) dies(m *zookeeper.Member, d time.Duration) string {
	if m == nil {
		return ""
	}
	w.lasts(d, m.Start)
	switch how := w.rand.IntN(3); how {
	case 0:
		m.Kill()
		return fmt.Sprintf("FAULT %v is away for %v", m, d)
	default:
		m.Crash(how == 1, func(of int) int { return w.rand.IntN(of + 1) })
		return fmt.Sprintf("FAULT %v is away for %v, and some of its last words are lost; nobody is told: %v", m, d, how == 1)
	}
}

// dooms has a server die over the next proposal.
func dooms(at zookeeper.Stage) func(*script, parcel) {
	return func(s *script, _ parcel) { s.lasts(outlastsSessions, s.ensemble().zk.Doom(at)) }
}

// denySome takes some rights to a line, or to a node in it, away for a while.
func (w *world) denySome(d time.Duration) string {
	path := zkRoot + "/" + w.lines[w.rand.IntN(len(w.lines))]
	if n, ok := w.node(); ok && w.rand.IntN(2) == 0 {
		path = n.ID
	} else if w.rand.IntN(6) == 0 {
		path = zkRoot
	}
	rights := ""
	for _, r := range "rwcda" {
		if w.rand.IntN(2) == 0 {
			rights += string(r)
		}
	}
	w.deny(path, rights, d)
	return fmt.Sprintf("FAULT nobody may do more than %q with %s for %v", rights, path, d)
}

// deny lets nobody do more with a node than rights say, until they are given back.
func (w *world) deny(path, rights string, d time.Duration) {
	zk := w.ensemble().zk
	if !zk.Allow(path, rights) {
		return
	}
	w.deniedUntil(time.Now().Add(d))
	var back func()
	back = func() {
		w.deniedUntil(time.Now())
		if !zk.Allow(path, "rwcda") {
			time.AfterFunc(w.cfg.TTL/10, back)
		}
	}
	w.lasts(d, back)
}

func (w *world) deniedUntil(t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.denied = later(w.denied, t)
}

// holdWay stalls one direction between two servers for a while, and then perhaps the other one. Mostly these are the leader and
// the server of a client.
func (w *world) holdWay(c *client) string {
	all := w.ensemble().zk.Members()
	from, to := w.ensemble().zk.Leader(), w.ensemble().zk.MemberOf(c.name)
	if from == nil || to == nil || w.rand.IntN(4) == 0 {
		from, to = all[w.rand.IntN(len(all))], all[w.rand.IntN(len(all))]
	}
	d, then := w.cfg.TTL/4+time.Duration(w.rand.Int64N(int64(w.cfg.TTL*3/4))), time.Duration((w.rand.IntN(4)+1)/2)*w.cfg.TTL
	if from == to || time.Now().Before(w.held) && w.rand.IntN(8) > 0 { // with many of them nothing is agreed to
		return ""
	}
	w.held = time.Now().Add(d + then)
	if w.rand.IntN(4) == 0 {
		from, to = to, from
	}
	w.hold(from, to, d, then, w.rand.IntN(2) == 0)
	return fmt.Sprintf("FAULT what %v says to %v is late by %v, and then the other way by %v", from, to, d, then)
}

// hold stalls what one server says to another, and then what that one says. With parts it soon stalls both.
func (w *world) hold(from, to *zookeeper.Member, d, then time.Duration, parts bool) {
	zk := w.ensemble().zk
	release, back := zk.Hold(from, to), func() {}
	w.lasts(d, func() {
		if then > 0 {
			back = zk.Hold(to, from) // before anything is answered
		}
		release()
	})
	if soon := w.cfg.TTL / 20; parts && soon < then {
		w.lasts(d+soon, func() { release = zk.Hold(from, to) })
		w.lasts(d+then, func() { release() })
	}
	w.lasts(d+then, func() { back() })
}

// raze has an operator remove a node with all that is in it. If it is the root, memos have gone with it.
func (w *world) raze(p string) {
	w.takeAway(func() { w.ensemble().take(func() { w.ensemble().zk.RemoveAll(p) }) })
	if p == zkRoot {
		w.memosGo()
	}
}

// memosGo notes that what lines remembered has gone, as after a backup.
func (w *world) memosGo() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restored = true
}

func turnRound(parts bool) func(*script, parcel) {
	return func(s *script, p parcel) {
		leader, m := s.ensemble().zk.Leader(), s.ensemble().zk.MemberOf(p.link)
		if d := scriptTTL * 3 / 4; leader != nil && m != nil && leader != m {
			s.hold(leader, m, d, outlastsSessions, parts)
			s.broken = later(s.broken, time.Now().Add(d+outlastsSessions))
		}
	}
}

func (w *world) ensemble() *ensemble { return w.service.(*ensemble) }

// depose kills the leader.
func (w *world) depose() (back func()) {
	m := w.ensemble().zk.Leader()
	if m == nil {
		return func() {}
	}
	m.Kill()
	return m.Start
}

// putBackOld puts an ensemble back to where it was some transactions ago.
func (w *world) putBackOld(back, since int) {
	w.restore(func() { w.ensemble().restore(back, since) })
}

// restore puts a service back to where it was. A contender whose node stands again goes on; all others have lost theirs, and
// tokens go back.
func (w *world) restore(putBack func()) {
	w.takeAway(putBack)
	w.scheduler.forgetGone()
	standing := w.standing()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restored, w.restoredAt = true, time.Now()
	for _, c := range w.claims {
		c.back = c.back || !c.excused.IsZero() && standing[turn{c.line, c.token}]
	}
	clear(w.taken) // other nodes will have these numbers; an ensemble knows which they were
	clear(w.last)
}
