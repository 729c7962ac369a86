package simulation

import (
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/verify/simulation/etcdcluster"
)

// What may befall an etcd cluster, beyond the faults that every far side has.

const (
	electsAfter = time.Second         // the cluster's election timeout
	sleepsLong  = electsAfter * 3 / 2 // so another leader is elected
	thawsAfter  = electsAfter * 11 / 10
	sweeps      = 21 * time.Second // how long a stray node may stand: its session looks every 20 s
	longTry     = 6 * time.Second  // a little longer than a try of a request may take
	deafness    = 2 * time.Second  // how long a stream of watches may stay without an answer until its client takes another
	naps        = electsAfter / 2  // so none is
	backupAge   = 8                // how many entries of the log a backup lacks
)

func (w *world) etcd() *etcd { return w.service.(*etcd) }

// etcdKinds are the faults that only etcd has.
var etcdKinds = []*Kind{
	// The leader is stopped until another is elected. When it goes on, it passes on what it has got.
	{name: "asleep", needs: anything, breaks: leaderSleeps(sleepsLong, true)},
	// Or forgets it.
	{name: "deposed", needs: anything, breaks: leaderSleeps(sleepsLong, false)},
	// It is stopped, and goes on before anybody has noticed.
	{name: "naps", needs: anything, breaks: leaderSleeps(naps, true)},
	// The member that the request goes to is stopped, for longer than sessions live.
	{name: "stops", needs: anything, breaks: memberSleeps(outlastsSessions)},
	// The leader is stopped until another is elected, and goes on cut off from the others. The client that the parcel belongs to
	// reaches nobody else.
	{name: "thaws", needs: anything, breaks: leaderThaws(false)},
	// Or only its renewals do not.
	{name: "splits", needs: anything, breaks: leaderThaws(true)},
	// Another member leads.
	{name: "leads", needs: anything, breaks: (*script).moves},
	// All but the present is forgotten.
	{name: "compacts", needs: anything, breaks: (*script).compacts},
	// The cluster has its state of some time ago.
	{name: "restored", needs: anything, breaks: backup(etcdcluster.Backup{Fewer: backupAge})},
	// The same, and others have made up for the revisions that it has lost.
	{name: "relapsed", needs: anything, breaks: backup(etcdcluster.Backup{Fewer: backupAge, Since: 4 * backupAge})},
	// The same, and the revisions are bumped.
	{name: "bumped", needs: anything, breaks: backup(etcdcluster.Backup{Fewer: backupAge, Bump: 1000})},
	// A request is refused once: the token is no longer known; there are too many; this is a learner; the leader has changed.
	// An operator removes all keys of the line; and all there are.
	{name: "razed", needs: anything, breaks: func(s *script, _ parcel) { s.wipe(root + stage + "/") }},
	{name: "uprooted", needs: anything, breaks: func(s *script, _ parcel) { s.wipe(root) }},
	// Nobody may read what is in the line, for a while; or write it; or do either with anything.
	{name: "blind", needs: anything, breaks: reduced(rights{root + stage + "/", true, false})},
	{name: "readonly", needs: anything, breaks: reduced(rights{root + stage + "/", false, true})},
	{name: "shut", needs: anything, breaks: reduced(rights{root, true, true})},
	{name: "token", needs: request, breaks: refusedOnce(etcdcluster.InvalidToken)},
	{name: "crowded", needs: request, breaks: refusedOnce(etcdcluster.Crowded)},
	{name: "learner", needs: request, breaks: refusedOnce(etcdcluster.Learner)},
	{name: "changed", needs: request, breaks: refusedOnce(etcdcluster.NewLeader)},
	// The next request that puts something is applied, and answered as if it were not.
	{name: "full", needs: request, breaks: (*script).fills},
	// The answer to a request is lost, and from then on there is no space, for longer than a session lives.
	{name: "nospace", needs: request, breaks: (*script).runsOut},
	// A request arrives, its answer is lost, and something on the way sends it again.
	{name: "resent", needs: func(_ *script, p parcel) bool { return p.mutely != nil }, breaks: (*script).resends},
	// A request arrives, and once more right away.
	{name: "doubled", needs: repeatable, breaks: func(s *script, p parcel) { s.late(p, 3*time.Millisecond, s.repeat) }},
	// News is held back for a moment, and then arrives at once.
	{name: "together", needs: anything, breaks: func(s *script, p parcel) { s.bunch(p.link) }},
}

// sleeps stops a member for a while. What it had got as the leader is passed on to its successor when it wakes up (late), or
// is lost.
func (w *world) sleeps(member int, d time.Duration, late bool) {
	f := w.etcd()
	f.cluster.Sleep(member)
	if !late {
		w.nap = max(w.nap, longTry) // what is lost is noticed when its try is over
	}
	w.stranded = append(w.stranded, stranding{fmt.Sprint("member ", member), time.Now().Add(d), func() { f.cluster.Return(member, late) }})
}

func leaderSleeps(d time.Duration, late bool) func(*script, parcel) {
	return func(s *script, _ parcel) {
		s.sleeps(s.etcd().cluster.Leader(), d, late)
		s.broken = later(s.broken, time.Now().Add(d))
	}
}

// thaws stops the leader until another is elected. It goes on cut off from the others, and for as long as sessions live a
// link, or its renewals, get no further than to it.
func (w *world) thaws(link string, renewals bool) {
	f := w.etcd()
	leader := f.cluster.Leader()
	f.cluster.Sleep(leader)
	w.nap = max(w.nap, deafness) // other clients' streams may be at that leader, too
	w.cut(link, 0)
	f.pin(link, &pin{leader, renewals})
	w.lasts(thawsAfter, func() { f.cluster.Wake(leader) })
	w.lasts(thawsAfter+2*w.cfg.TTL, func() {
		f.pin(link, nil)
		f.cluster.Return(leader, true)
		w.cut(link, 0)
	})
}

func leaderThaws(renewals bool) func(*script, parcel) {
	return func(s *script, p parcel) {
		s.thaws(p.link, renewals)
		s.broken = later(s.broken, time.Now().Add(thawsAfter+2*scriptTTL))
	}
}

// pin is the only member that a link reaches, or that its renewals reach.
type pin struct {
	member   int
	renewals bool // only those
}

// pin has a link, or its renewals, reach one member only; nil: any.
func (f *etcd) pin(link string, to *pin) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pinned, link)
	if to != nil {
		f.pinned[link] = *to
	}
}

// memberSleeps stops the member that the next request of a link goes to.
func memberSleeps(d time.Duration) func(*script, parcel) {
	return func(s *script, p parcel) {
		s.sleeps(s.etcd().next(p.link), d, true)
		s.broken = later(s.broken, time.Now().Add(d))
	}
}

// refusedOnce has a member refuse the next request of a link.
func refusedOnce(with error) func(*script, parcel) {
	return func(s *script, p parcel) {
		s.etcd().refuse(p.link, with)
		s.nap = scriptTTL * 3 / 5 // a watch that was refused is asked for again within a second
	}
}

func (s *script) fills(p parcel) {
	f := s.etcd()
	f.mu.Lock()
	f.full[p.link] = true
	f.mu.Unlock()
	s.mu.Lock()
	s.fulls[p.link] = true
	s.mu.Unlock()
}

func (s *script) runsOut(p parcel) {
	s.loseAnswer(p)
	f, end := s.etcd(), time.Now().Add(2*outlastsSessions)
	f.mu.Lock()
	f.alarm = end
	f.mu.Unlock()
	s.mu.Lock()
	s.noSpace = true
	s.mu.Unlock()
	s.broken = later(s.broken, end)
}

// resends may be late: the member that has the first of the two may stand still. Only a sweep finds what that one puts.
func (s *script) resends(p parcel) {
	s.strays = sweeps
	p.mutely()
}

func (s *script) compacts(parcel) { s.etcd().cluster.Compact() }

func (s *script) moves(parcel) { s.etcd().cluster.Move() }

// putBack restarts the cluster from a backup, so tokens go back, too, unless the revision is bumped. Nodes that sessions have
// left since the backup stand again until those sessions expire. A session notices by a revision lower than one that it was told
// before; once others have made up for the lost revisions, or if those are bumped, by a write of its own that is not there. If it
// has written nothing since, it finds such a node when it sweeps.
//
// One who was let in since then, and has written nothing either, holds on, and whoever had made way for it stands ahead of it again.
func (w *world) putBack(b etcdcluster.Backup) {
	before := w.incarnations()
	w.restore(func() {
		w.etcd().cluster.Restore(b)
		for _, c := range w.clients {
			w.cut(c.name, 0)
		}
	})
	w.nap = max(w.nap, 2*w.cfg.TTL)
	if b.Bump > 0 || b.Since > 0 {
		w.excuseUndone(before)
		w.nap, w.strays = max(w.nap, sweeps), sweeps
	}
}

// excuseUndone excuses those ahead of whom somebody stands who was not there before.
func (w *world) excuseUndone(before map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.claims {
		undone := slices.ContainsFunc(w.nodes(c.line), func(n driver.Node) bool {
			return n.Token < c.place().token && !before[n.ID] && conflict(n.Kind, c.kind)
		})
		if undone && c.excused.IsZero() {
			c.excused, c.back = time.Now(), true
		}
	}
}

// wipe has an operator remove all keys below a prefix: sessions' own and memos as well, if it is the root.
func (w *world) wipe(prefix string) {
	f := w.etcd()
	w.takeAway(func() {
		_, _ = f.cluster.Do(&pb.DeleteRangeRequest{Key: []byte(prefix), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(prefix))})
	})
	if prefix == root {
		w.memosGo()
	}
}

func backup(b etcdcluster.Backup) func(*script, parcel) {
	return func(s *script, _ parcel) { s.putBack(b) }
}

// etcdFault breaks something on an etcd cluster, in a run that a seed decides.
func (w *world) etcdFault(c *client) string {
	f := w.etcd()
	d := time.Duration(w.rand.Int64N(int64(2 * electsAfter)))
	switch w.rand.IntN(10) {
	case 9:
		prefix := root
		if w.rand.IntN(4) > 0 {
			prefix += w.lines[w.rand.IntN(len(w.lines))] + "/"
		}
		w.wipe(prefix)
		return "FAULT an operator removes all keys below " + prefix
	case 8:
		return w.reduceSome(d)
	case 7:
		b := etcdcluster.Backup{Fewer: 1 + w.rand.IntN(20)}
		if how := w.rand.IntN(3); how == 1 {
			b.Since = 2 * b.Fewer
		} else if how == 2 {
			b.Bump = 1000
		}
		w.putBack(b)
		w.nap, w.strays = max(w.nap, sweeps), sweeps // others may make up for it before one looks who was cut off
		return fmt.Sprintf("FAULT a backup of %d transactions ago is put back, with %d bumped revisions, and then there are %d others", b.Fewer, b.Bump, b.Since)
	case 6:
		renewals := w.rand.IntN(2) == 0
		w.thaws(c.name, renewals)
		return fmt.Sprintf("FAULT the leader sleeps and goes on without the others; %s reaches no other; only its renewals: %v", c.name, renewals)
	case 0:
		leader, late := f.cluster.Leader(), w.rand.IntN(2) == 0
		w.sleeps(leader, d, late)
		return fmt.Sprintf("FAULT the leader, %d, sleeps for %v; what it has got comes late: %v", leader, d, late)
	case 1:
		member := w.rand.IntN(f.cluster.Members())
		w.sleeps(member, d, true)
		return fmt.Sprintf("FAULT member %d sleeps for %v", member, d)
	case 2:
		f.cluster.Move()
		return fmt.Sprintf("FAULT %d leads", f.cluster.Leader())
	case 3:
		f.cluster.Compact()
		return "FAULT compacted"
	default:
		refusals := []error{etcdcluster.Denied, etcdcluster.InvalidToken, etcdcluster.Crowded, etcdcluster.Learner, etcdcluster.NewLeader}
		with := refusals[w.rand.IntN(len(refusals))]
		f.refuse(c.name, with)
		if with == etcdcluster.Denied {
			w.deniedUntil(time.Now().Add(w.cfg.TTL)) // its next request may be a renewal
		}
		return fmt.Sprintf("FAULT the next request of %s is refused: %v", c.name, with)
	}
}
