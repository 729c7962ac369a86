package simulation

import (
	"fmt"
	"time"

	"github.com/turnwise/turnwise/verify/simulation/etcdcluster"
)

// What may befall an etcd cluster besides.

const (
	electsAfter = time.Second         // of the cluster
	sleepsLong  = electsAfter * 3 / 2 // so another leader is elected
	sweeps      = 21 * time.Second    // how long a session's stray node may stand: it looks every 20 s
	longTry     = 6 * time.Second     // how long a try of a request may come to take, and a little
	naps        = electsAfter / 2     // so none is
	backupAge   = 8                   // how many entries of the log a backup lacks
)

func (w *world) etcd() *etcd { return w.service.(*etcd) }

// etcdKinds are the faults that only an etcd has.
var etcdKinds = []*Kind{
	// The leader is stopped until another is elected, and passes on what it has got when it goes on.
	{name: "asleep", needs: anything, breaks: leaderSleeps(sleepsLong, true)},
	// Or forgets it.
	{name: "deposed", needs: anything, breaks: leaderSleeps(sleepsLong, false)},
	// The same, and a lease has under the next leader what was left of it.
	{name: "checkpointed", needs: anything, breaks: leaderSleeps(sleepsLong, true), checkpoints: true},
	// It is stopped, and goes on before anybody has noticed.
	{name: "naps", needs: anything, breaks: leaderSleeps(naps, true)},
	// The member that the request goes to is stopped, for longer than sessions live.
	{name: "stops", needs: anything, breaks: memberSleeps(outlastsSessions)},
	// Another member leads.
	{name: "leads", needs: anything, breaks: (*script).moves},
	// All but the present is forgotten.
	{name: "compacts", needs: anything, breaks: (*script).compacts},
	// The cluster has its state of some time ago.
	{name: "restored", needs: anything, breaks: (*script).rewind},
	// A request is refused once: the token is no longer known; there are too many; this is a learner; the leader has changed.
	{name: "token", needs: request, breaks: refusedOnce(etcdcluster.InvalidToken)},
	{name: "crowded", needs: request, breaks: refusedOnce(etcdcluster.Crowded)},
	{name: "learner", needs: request, breaks: refusedOnce(etcdcluster.Learner)},
	{name: "changed", needs: request, breaks: refusedOnce(etcdcluster.NewLeader)},
	// It arrives, its answer is lost on the way, and what stands there sends it again.
	{name: "resent", needs: func(_ *script, p parcel) bool { return p.mutely != nil }, breaks: func(_ *script, p parcel) { p.mutely() }},
	// It arrives, and once more right away.
	{name: "doubled", needs: repeatable, breaks: func(s *script, p parcel) { s.late(p, 3*time.Millisecond, s.repeat) }},
	// News are held back for a moment, and then arrive at once.
	{name: "together", needs: anything, breaks: func(s *script, p parcel) { s.bunch(p.link) }},
}

// sleeps stops a member for a while. What it had got as the leader is passed on to its successor when it wakes up, or lost.
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

func (s *script) compacts(parcel) { s.etcd().cluster.Compact() }

func (s *script) moves(parcel) { s.etcd().cluster.Move() }

// rewind has the cluster begin again from a backup, so tokens begin again, too. What sessions had left since then stands
// again until they have expired. A session hears of it by a revision that is lower than one that it was told before; when
// others have made up for those it cannot know.
func (s *script) rewind(parcel) {
	s.takeAway(func() {
		s.etcd().cluster.Restore(backupAge)
		for _, c := range s.clients {
			s.cut(c.name, 0)
		}
	})
	s.scheduler.forgetGone()
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.last)
	clear(s.taken) // who holds has been excused, and others come to have the same tokens
	s.nap = 2 * scriptTTL
}

// fault on an etcd, for runs that a seed decides.
func (w *world) etcdFault(c *client) string {
	f := w.etcd()
	d := time.Duration(w.rand.Int64N(int64(2 * electsAfter)))
	switch w.rand.IntN(6) {
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
		refusals := []error{etcdcluster.InvalidToken, etcdcluster.Crowded, etcdcluster.Learner, etcdcluster.NewLeader}
		with := refusals[w.rand.IntN(len(refusals))]
		f.refuse(c.name, with)
		return fmt.Sprintf("FAULT the next request of %s is refused: %v", c.name, with)
	}
}
