package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// target is a ratio to be reached: at least that many times as fast as a peer, or at most that many times its time. Without
// a peer the target is a time.
type target struct {
	work      string
	ourCase   string // a prefix of the case's name
	peerCase  string // empty: the same as ourCase
	service   Service
	who       string // "turnwise" if none is named
	peer      string // "turnwise" for another case of our own
	atLeast   float64
	atMost    float64
	within    time.Duration
	toAnother bool   // only turns count that went to another seat than the turn before
	why       string // why it is not reached, as far as we know
}

// Why some are not reached.
const (
	transactions = "On etcd an acquire compares, reads and puts in one transaction, and a release compares before it deletes, " +
		"so that a release that is applied late does no harm (etcd #22082). The server takes 183 and 175 µs for " +
		"these, and 146 and 140 µs for a put and a delete; concurrency.Mutex deletes by key alone. The rest is on " +
		"our side: a join has a goroutine of its own, so that its caller can leave at any time, which costs 20 µs. " +
		"A profile of the client finds 3 % of its time in turnwise, 18 % in gRPC and etcd's client, and most of the " +
		"rest in the runtime and the kernel."
	looks = "On ZooKeeper a turn that had to wait behind another process takes as many requests as zk.Lock's: a create, its " +
		"list, a watch, a list when its turn comes near, unless only one was ahead, and a delete. It could do without the " +
		"second list if it believed a mark that the one before it leaves; but whoever may stand in the line could forge " +
		"that. In a queue of one client there is no second list."
	kernels = "flock(2) costs a system call, and whoever has just let go nearly always has it again: of its many turns " +
		"few go to another, and how few depends on the kernel and the processor. On the machine that the ratio was set for " +
		"it was some 500 a second; here it is thousands. What coord/file gives for its time is the order, the token, and a " +
		"turn that others can see, break and wait for without a thread. Who needs none of that is well served by flock(2)."
	notifies = "A turn on PostgreSQL is a transaction that swaps a row and notifies. NOTIFY takes a lock for the whole database " +
		"until the commit, and the news takes its way through another backend and connection. pg_advisory_lock is a look " +
		"into shared memory: docs/engines.md says who is better served by it."
	swaps = "Alone on files, an acquire and a release are two swaps, each of which locks, reads, writes a file beside and " +
		"renames it. On the machine that the time was set for they took 52 to 58 µs."
)

var targets = []target{
	{work: "uncontended", ourCase: "1 client", service: ZooKeeper, peer: "bare create + delete", atMost: 1.2},
	{work: "uncontended", ourCase: "1 client", service: Etcd, peer: "bare put + delete", atMost: 1.1, why: transactions},
	{work: "uncontended", ourCase: "1 client", service: ZooKeeper, peer: "zk.Lock", atLeast: 1},
	{work: "uncontended", ourCase: "1 client", service: ZooKeeper, peer: "Curator", atLeast: 1},
	{work: "uncontended", ourCase: "1 client", service: ZooKeeper, peer: "Kazoo", atLeast: 1},
	{work: "uncontended", ourCase: "1 client", service: Etcd, peer: "concurrency.Mutex", atLeast: 1, why: transactions},
	{work: "uncontended", ourCase: "1 client", service: Etcd, peer: "concurrency.Election", atLeast: 1},
	{work: "handoff", ourCase: "2 contenders", service: Etcd, peer: "concurrency.Mutex", atLeast: 10},
	{work: "handoff", ourCase: "2 contenders", service: ZooKeeper, peer: "zk.Lock", atLeast: 1, why: looks},
	{work: "handoff", ourCase: "16 contenders", service: Etcd, peer: "concurrency.Mutex", atLeast: 2},
	{work: "handoff", ourCase: "16 contenders", service: ZooKeeper, peer: "zk.Lock", atLeast: 1, why: looks},
	{work: "handoff", ourCase: "16 contenders", service: ZooKeeper, peer: "Curator", atLeast: 1.6},
	{work: "drain", ourCase: "4000 waiters", peerCase: "2 waiters", service: ZooKeeper, peer: "turnwise", atMost: 1.3},
	{work: "drain", ourCase: "4000 waiters", peerCase: "2 waiters", service: Etcd, peer: "turnwise", atMost: 1.3},
	{work: "drain", ourCase: "4000 waiters", service: ZooKeeper, peer: "zk.Lock", atLeast: 4},
	{work: "drain", ourCase: "4000 waiters", service: Etcd, peer: "concurrency.Mutex", atLeast: 3},
	{work: "rwlock", ourCase: "90 %", service: ZooKeeper, peer: "Curator", atLeast: 1},
	{work: "rwlock", ourCase: "50 %", service: ZooKeeper, peer: "Curator", atLeast: 1},
	{work: "rwlock", ourCase: "10 %", service: ZooKeeper, peer: "Curator", atLeast: 1},
	{work: "rwlock", ourCase: "a writer", service: ZooKeeper, peer: "Curator", atLeast: 1},
	{work: "rwlock", ourCase: "90 %", service: Etcd, peer: "recipes.RWMutex", atLeast: 1},
	{work: "rwlock", ourCase: "50 %", service: Etcd, peer: "recipes.RWMutex", atLeast: 1},
	{work: "rwlock", ourCase: "10 %", service: Etcd, peer: "recipes.RWMutex", atLeast: 1},
	{work: "rwlock", ourCase: "a writer", service: Etcd, peer: "recipes.RWMutex", atLeast: 1},
	{work: "semaphore", ourCase: "8 permits", service: ZooKeeper, peer: "Curator", atLeast: 3},
	{work: "semaphore", ourCase: "100 permits", service: ZooKeeper, peer: "Curator", atLeast: 1},
	{work: "stores", ourCase: "16 contenders", service: Redis, peer: "redsync", atLeast: 50, toAnother: true},
	{work: "stores", ourCase: "16 contenders", service: RedisThree, peer: "redsync", atLeast: 10, toAnother: true},
	{work: "stores", ourCase: "16 processes", service: Files, peer: "flock", atLeast: 5, toAnother: true, why: kernels},
	{work: "stores", ourCase: "16 contenders", service: Postgres, within: 500 * time.Microsecond, toAnother: true, why: notifies},
	{work: "stores", ourCase: "1 client", service: Files, within: 60 * time.Microsecond, why: swaps},
	{work: "stores", ourCase: "4000 waiters", service: Redis, within: 400 * time.Microsecond},
}

// time returns what a turn took in the median round.
func (t target) time(r *Result) float64 {
	if !t.toAnother {
		return float64(r.Median())
	}
	return r.middle(func(s Sample) float64 { return float64(s.Per) / s.Passed })
}

// find returns a result from the book.
func (b *Book) find(work, casePrefix string, s Service, contestant string) *Result {
	for i, r := range b.Works[work] {
		if strings.HasPrefix(r.Case, casePrefix) && r.Service == s && r.Contestant == contestant && len(r.Rounds) > 0 {
			return &b.Works[work][i]
		}
	}
	return nil
}

// verdict returns a line of the table of targets; ok is false if there is nothing to compare.
func (t target) verdict(b *Book) (line string, reached, ok bool) {
	we := b.find(t.work, t.ourCase, t.service, cmp.Or(t.who, "turnwise"))
	if we == nil {
		return "", false, false
	}
	what := t.work + ", " + we.Case
	if t.who != "" {
		what += ", " + t.who
	}
	if t.toAnother {
		what += ", to another"
	}
	var against, wanted, got string
	if t.within > 0 {
		against = "the clock"
		wanted, got = fmt.Sprintf("at most %v", t.within), shown(time.Duration(t.time(we)))
		reached = t.time(we) <= float64(t.within)
	} else {
		they := b.find(t.work, cmp.Or(t.peerCase, t.ourCase), t.service, t.peer)
		if they == nil {
			return "", false, false
		}
		against = t.peer
		if t.peerCase != "" {
			against = "with " + they.Case
		}
		ratio := t.time(they) / t.time(we)
		wanted, reached = fmt.Sprintf("at least %.1f x as fast", t.atLeast), ratio >= t.atLeast
		if t.atMost > 0 {
			ratio = 1 / ratio
			wanted, reached = fmt.Sprintf("at most %.4g x its time", t.atMost), ratio <= t.atMost
		}
		got = fmt.Sprintf("%.2f x", ratio)
	}
	yes := "reached"
	if !reached {
		yes = "**not reached**"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", what, t.service, against, wanted, got, yes), reached, true
}

// After the kill of a leader, the next one must lead within the session timeout, a tick of the server, and some slack.
const failoverBound = failoverTimeout + 100*time.Millisecond + 100*time.Millisecond

func failoverVerdicts(b *Book) []string {
	var lines []string
	for _, s := range []Service{ZooKeeper, Etcd} {
		if r := b.find("failover", "kill -9", s, "turnwise"); r != nil {
			yes := "reached"
			_, _, most := r.spread()
			if most > failoverBound {
				yes = "**not reached**"
			}
			lines = append(lines, fmt.Sprintf("| failover, kill -9, the slowest | %s | the session timeout | at most %v | %v | %s |", s, failoverBound, shown(most), yes))
		}
	}
	return lines
}
