package main

import (
	"slices"
	"sort"
	"strings"
	"time"
)

// A standing is one node as the service had it. When things happened is told in the service's own count of changes: etcd's
// revisions, ZooKeeper's transaction ids.
type standing struct {
	line     string
	node     string // as workers name it
	kind     string
	order    [2]int64 // its place in the line: smaller is ahead
	born     int64
	softened int64 // when a writer became a reader; 0: never
	gone     int64 // 0: it stands still
	revoked  bool  // it went together with its etcd lease
	closed   int64 // when its session ended, perhaps before it was born: that was forgotten; 0: it did not end, or that is not known
}

// A stamp is a write of the judge's own. It carries the time at which it was sent: whatever has a greater position
// happened later than that.
type stamp struct {
	position int64
	at       time.Duration
}

// A truth is what the service's own history says.
type truth struct {
	nodes  []*standing
	anew   [][2]int64 // when directories were last used, and made again although they had not been deleted
	lost   []int64    // writes of the judge's own that were answered and are not in the history
	stamps []stamp    // by position, their times made to grow
	acks   []stamp    // of writes that had been answered by that time: what has no greater position happened before it

	// What lapses has found out.
	forgotten map[string]bool          // nodes that it has taken out
	apart     map[string]time.Duration // by line, until when members may show different nodes
}

func (t *truth) order() {
	sort.Slice(t.stamps, func(i, j int) bool { return t.stamps[i].position < t.stamps[j].position })
	for i := 1; i < len(t.stamps); i++ {
		t.stamps[i].at = max(t.stamps[i].at, t.stamps[i-1].at)
	}
	sort.Slice(t.acks, func(i, j int) bool { return t.acks[i].position < t.acks[j].position })
	for i := len(t.acks) - 2; i >= 0; i-- {
		t.acks[i].at = min(t.acks[i].at, t.acks[i+1].at)
	}
}

// answered notes which writes of the judge's own were answered, and misses those that are not in the history.
func (t *truth) answered(acks []stamp) {
	logged := map[int64]bool{}
	for _, s := range t.stamps {
		logged[s.position] = true
	}
	for _, a := range acks {
		if !logged[a.position] {
			t.lost = append(t.lost, a.position)
		}
	}
	t.acks = acks
}

const forever = time.Duration(1<<63 - 1)

// notBefore returns a time that surely had passed when the change at this position was made.
func (t *truth) notBefore(position int64) time.Duration {
	if position == 0 {
		return forever
	}
	i := sort.Search(len(t.stamps), func(i int) bool { return t.stamps[i].position >= position })
	if i == 0 {
		return 0
	}
	return t.stamps[i-1].at
}

func (t *truth) byName() map[string]*standing {
	nodes := map[string]*standing{}
	for _, s := range t.nodes {
		nodes[s.node] = s
	}
	return nodes
}

// ahead reports whether s stands ahead of the other node in its line.
func (s *standing) ahead(of *standing) bool { return slices.Compare(s.order[:], of.order[:]) < 0 }

// A lapse is a span of time: after it, the service had forgotten what it had confirmed during it.
type lapse struct {
	from, to time.Duration
	epochs   [2]int64 // of leaders: from the first until before the second
}

// lapses finds where the service has forgotten a part of its history, and takes the nodes of that part out. ZooKeeper
// numbers the nodes of a line, so two then have the same number, or the line's directory is made again although it is
// there, or a session that had ended makes a node. A majority has logged that part, so it had been agreed on. Or it is in
// too few logs, since others have it in a snapshot alone, and a write of the judge's own is there that was answered.
// ZooKeeper is known to lose such things now and then (ZOOKEEPER-4643, 4646, 4785 and others), and no client can help it.
//
// From then on its members do not agree. One has the forgotten part in its log, and writes what comes next behind it. When it is started
// again it replays both, and says so: "Digests are not matching". It goes on to show nodes that the others do not have, or to lack some that
// they have, until the sessions of these nodes end. If the end of a session was forgotten, it drops all that the session has made since,
// when it next loads its data, and logs nothing.
func (t *truth) lapses() []lapse {
	type place struct {
		line  string
		order [2]int64
	}
	sort.Slice(t.nodes, func(i, j int) bool { return t.nodes[i].born < t.nodes[j].born })
	var found []lapse
	for _, d := range t.anew {
		found = append(found, lapse{t.notBefore(d[0]), t.notAfter(d[1]), [2]int64{d[0] >> 32, d[1] >> 32}})
	}
	for _, p := range t.lost {
		found = append(found, lapse{t.notBefore(p), t.notAfter(p), [2]int64{p >> 32, p>>32 + 1}})
	}
	first := map[place]*standing{}
	for _, s := range t.nodes {
		p := place{s.line, s.order}
		if was := first[p]; was != nil && was.gone != s.born { // an amended node keeps its number
			found = append(found, lapse{t.notBefore(was.born), t.notAfter(s.born), [2]int64{was.born >> 32, s.born >> 32}})
		}
		first[p] = s
	}
	for _, s := range t.nodes {
		if s.isOfThePast() {
			found = append(found, lapse{t.notBefore(s.closed), t.notAfter(s.born), [2]int64{s.closed >> 32, s.born >> 32}})
		}
	}
	t.forgotten, t.apart = map[string]bool{}, map[string]time.Duration{}
	// It is not known which of an epoch's changes were the first to go.
	t.nodes = slices.DeleteFunc(t.nodes, func(s *standing) (forgotten bool) {
		for i, l := range found {
			if l.has(s.born) {
				found[i].from, forgotten = min(l.from, t.notBefore(s.born)), true
				t.forgotten[s.node] = true
			}
			if l.has(s.born) || l.has(s.gone) {
				t.apart[s.line] = max(t.apart[s.line], t.notAfter(s.closed))
			}
		}
		if s.isOfThePast() { // it is not known when that went
			forgotten, t.forgotten[s.node], t.apart[s.line] = true, true, forever
		}
		return forgotten
	})
	return found
}

// isOfThePast reports whether a node was made by a session that had ended under an earlier leader.
func (s *standing) isOfThePast() bool { return s.closed > 0 && s.closed>>32 < s.born>>32 }

// has reports whether a change may have been forgotten.
func (l lapse) has(position int64) bool {
	epoch := position >> 32
	return position > 0 && l.epochs[0] <= epoch && epoch < l.epochs[1]
}

// conflict reports whether two kinds exclude one another. Semaphores are counted instead.
func conflict(a, b string) bool {
	return !(a == "R" && b == "R") && !isSemaphore(a) && !isSemaphore(b)
}

func isSemaphore(kind string) bool { return strings.HasPrefix(kind, "S") }

// notAfter returns a time by which the change at this position surely had been made.
func (t *truth) notAfter(position int64) time.Duration {
	i := sort.Search(len(t.acks), func(i int) bool { return t.acks[i].position >= position })
	if position == 0 || i == len(t.acks) {
		return forever
	}
	return t.acks[i].at
}
