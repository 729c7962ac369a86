package etcd

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/verify/servers"
)

// open begins a session on a link of its own.
func open(t testing.TB, l *link, opts ...Option) *session {
	t.Helper()
	s, err := l.service(t, opts...).Open(within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return s.(*session)
}

func entry(line, kind string) driver.Entry {
	return driver.Entry{Line: line, Kind: kind, Owner: driver.Owner{Host: "host", PID: 1, Since: time.Now()}}
}

// try returns an entry that joins only if nobody is in sight.
func try(e driver.Entry) driver.Entry {
	e.Free = func(ahead []driver.Node) bool { return len(ahead) == 0 }
	return e
}

func join(t testing.TB, s driver.Session, e driver.Entry) (driver.Place, []driver.Node) {
	t.Helper()
	me, ahead, err := s.Join(within(t, 20*time.Second), e)
	if err != nil {
		t.Fatalf("join: %v", err)
	}
	return me, ahead
}

func leave(t testing.TB, me driver.Place, held bool) {
	t.Helper()
	if err := me.Leave(within(t, 20*time.Second), held); err != nil {
		t.Fatalf("leave: %v", err)
	}
}

// turn waits until nobody is ahead, as a mutex does, and counts how often it was woken.
func turn(ctx context.Context, me driver.Place, ahead []driver.Node) (wakeUps int, err error) {
	for len(ahead) > 0 {
		ahead, err = me.Await(ctx, ahead[len(ahead)-1:])
		if err != nil {
			return wakeUps, err
		}
		wakeUps++
	}
	return wakeUps, nil
}

// etcd serves a watch that begins at a past revision from a loop that runs every 100 ms, so concurrency.Mutex takes 33 ms
// on average to hand over between two contenders. Here a hand-over takes little longer than the release that it begins with.
func TestTwoContendersHandOverInMilliseconds(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	const rounds = 200
	var mu sync.Mutex
	var released time.Time
	var took, releases []time.Duration
	var both sync.WaitGroup
	for range 2 {
		s := open(t, connectLink(t, cluster.Addrs()...))
		both.Go(func() {
			for range rounds {
				me, ahead, err := s.Join(within(t, 20*time.Second), entry("two", "lock"))
				if err == nil {
					_, err = turn(within(t, 20*time.Second), me, ahead)
				}
				now := time.Now()
				if err != nil {
					t.Errorf("lock: %v", err)
					return
				}
				mu.Lock()
				if len(ahead) > 0 {
					took = append(took, now.Sub(released))
				}
				mu.Unlock()
				time.Sleep(time.Millisecond)
				begun := time.Now()
				mu.Lock()
				released = begun
				mu.Unlock()
				if err := me.Leave(within(t, 20*time.Second), true); err != nil {
					t.Errorf("unlock: %v", err)
				}
				mu.Lock()
				releases = append(releases, time.Since(begun))
				mu.Unlock()
			}
		})
	}
	both.Wait()
	if len(took) < rounds/2 {
		t.Fatalf("only %d of %d turns were handed over", len(took), 2*rounds)
	}
	slices.Sort(took)
	slices.Sort(releases)
	median, release := took[len(took)/2], releases[len(releases)/2]
	t.Logf("%d hand-overs, release included: median %v, 9 of 10 within %v; a release alone: median %v", len(took), median, took[len(took)*9/10], release)
	if median > max(10*time.Millisecond, 4*release) {
		t.Errorf("a hand-over took %v in the median, a release %v", median, release)
	}
}

// What a hand-over costs the service must not depend on how many wait.
func TestHandOverCostsTheSameWithManyWaiting(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	few := handOvers(t, cluster, 2)
	many := handOvers(t, cluster, crowdOf(t))
	t.Logf("a hand-over with 2 waiting: %v", few)
	t.Logf("a hand-over with %d waiting: %v", many.waiting, many)
	if many.requests > few.requests {
		t.Errorf("requests: %.0f with 2 waiting, %.0f with %d", few.requests, many.requests, many.waiting)
	}
	if many.bytes > 1.2*few.bytes {
		t.Errorf("bytes: %.0f with 2 waiting, %.0f with %d", few.bytes, many.bytes, many.waiting)
	}
	if many.wakeUps > 1.1 {
		t.Errorf("%.2f wake-ups a turn", many.wakeUps)
	}
}

func crowdOf(t testing.TB) int {
	switch {
	case testing.Short():
		return 200
	case os.Getenv("TURNWISE_LONG") != "":
		return 10_000
	}
	return 2000
}

// cost is what a hand-over took: the least of any, and the average number of wake-ups.
type cost struct {
	waiting                  int
	requests, bytes, wakeUps float64
	memory                   float64
}

func (c cost) String() string {
	return fmt.Sprintf("%.0f requests, %.0f bytes, %.2f wake-ups; %.1f KiB a waiter", c.requests, c.bytes, c.wakeUps, c.memory/1024)
}

// handOvers has n wait through one client while one holds through another. The holder leaves, then each of the n in order.
func handOvers(t *testing.T, cluster *servers.Cluster, n int) cost {
	t.Helper()
	line := fmt.Sprintf("crowd of %d", n)
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l)
	holder := open(t, connectLink(t, cluster.Addrs()...))
	head, _ := join(t, holder, entry(line, "lock"))

	ctx := within(t, 4*time.Minute)
	before := heapInUse()
	begun := time.Now()
	places := make([]driver.Place, n)
	var wakeUps atomic.Int64
	turns := make([]chan error, n)
	for i := range places {
		turns[i] = make(chan error, 1)
		me, ahead, err := s.Join(ctx, entry(line, "lock"))
		if err != nil {
			t.Fatalf("join %d: %v", i, err)
		}
		places[i] = me
		go func() {
			w, err := turn(ctx, me, ahead)
			wakeUps.Add(int64(w))
			turns[i] <- err
		}()
	}
	joined := time.Since(begun)
	quiet(t, l) // every watch has been set
	memory := float64(heapInUse()-before) / float64(n)

	// Some hand-overs amid the crowd are counted, and then it drains.
	measured := min(n-1, 20)
	if err := head.Leave(ctx, true); err != nil {
		t.Fatal(err)
	}
	if err := <-turns[0]; err != nil {
		t.Fatal(err)
	}
	quiet(t, l)
	requests, bytes := math.Inf(1), math.Inf(1)
	for i := range measured {
		start := l.counted()
		if err := places[i].Leave(ctx, true); err != nil {
			t.Fatal(err)
		}
		if err := <-turns[i+1]; err != nil {
			t.Fatalf("turn %d: %v", i+1, err)
		}
		time.Sleep(10 * time.Millisecond) // for whatever may follow a hand-over
		// The least counts, since of many waiters some always poll.
		spent := l.counted().Sub(start)
		requests = min(requests, float64(spent.Requests()))
		bytes = min(bytes, float64(spent.Sent+spent.Received))
	}
	begun = time.Now()
	for i := measured; i < n; i++ {
		if err := places[i].Leave(ctx, true); err != nil {
			t.Fatal(err)
		}
		if i+1 < n {
			if err := <-turns[i+1]; err != nil {
				t.Fatalf("turn %d: %v", i+1, err)
			}
		}
	}
	t.Logf("%d joined one after the other in %v, the last %d drained in %v", n, joined, n-measured, time.Since(begun))
	return cost{
		waiting:  n,
		requests: requests,
		bytes:    bytes,
		wakeUps:  float64(wakeUps.Load()) / float64(n),
		memory:   memory,
	}
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// quiet waits until nothing passes the link for a while.
func quiet(t testing.TB, l *link) {
	t.Helper()
	last := l.counted()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		time.Sleep(150 * time.Millisecond)
		now := l.counted()
		if now.Requests()-last.Requests() <= 10 && now.Events == last.Events { // some may be polling
			return
		}
		last = now
	}
	t.Fatal("the link never becomes quiet")
}

// A look makes the service go through the whole line. If all places belong to one client, none is needed, unless what it listens to has broken.
func TestALineThatOneClientDrainsIsNotLookedAt(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	for range 5 {
		looks, broken := drained(t, cluster)
		switch {
		case broken:
			t.Log("the stream has broken, as it may on a busy machine: once more")
			continue
		case looks > 0:
			t.Errorf("%d looks", looks)
		}
		return
	}
	t.Error("the stream breaks all the time")
}

// drained has a line drained by one client. It returns how often that looked, and whether the stream of what it listens to has broken.
func drained(t *testing.T, cluster *servers.Cluster) (looks int64, broken bool) {
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l)
	head, _ := join(t, s, entry("drained", "lock"))
	var places []driver.Place
	var turns []<-chan error
	for range 20 {
		me, ahead := join(t, s, entry("drained", "lock"))
		places, turns = append(places, me), append(turns, waiter(t, me, ahead))
	}
	quiet(t, l)
	var n atomic.Int64
	count := func(_ string, req any) {
		if txn, ok := req.(*pb.TxnRequest); ok {
			for _, op := range txn.Success {
				if len(op.GetRequestRange().GetRangeEnd()) > 0 {
					n.Add(1)
				}
			}
		}
	}
	l.onSend.Store(&count)
	var looked []int // in which era each has looked last
	for _, me := range places {
		looked = append(looked, me.(*place).lastSeen().era)
	}
	leave(t, head, true)
	for i, me := range places {
		answers(t, turns[i], 5*time.Second, nil, "the next")
		leave(t, me, true)
	}
	l.onSend.Store(nil)
	now := places[0].(*place).watches.era()
	return n.Load(), slices.ContainsFunc(looked, func(era int) bool { return era != now })
}

// Two thousand at once: no request may time out behind the others, and leave its outcome open.
func TestCrowdJoinsAtOnceAndDrains(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	n := crowdOf(t)
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l)
	var inside, served, wakeUps atomic.Int64
	var last atomic.Int64
	ctx := within(t, 4*time.Minute)
	begun := time.Now()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			me, ahead, err := s.Join(ctx, entry("stampede", "lock"))
			if err != nil {
				t.Errorf("join: %v", err)
				return
			}
			w, err := turn(ctx, me, ahead)
			if err != nil {
				t.Errorf("await: %v", err)
				return
			}
			wakeUps.Add(int64(w))
			if inside.Add(1) > 1 {
				t.Error("two have their turn at once")
			}
			if token := int64(me.Node().Token); last.Swap(token) > token {
				t.Error("a turn out of order")
			}
			served.Add(1)
			inside.Add(-1)
			if err := me.Leave(ctx, true); err != nil {
				t.Errorf("leave: %v", err)
			}
		})
	}
	all.Wait()
	t.Logf("%d of %d served in %v, %.3f wake-ups each, %d writes", served.Load(), n, time.Since(begun),
		float64(wakeUps.Load())/float64(n), l.counted().Writes)
	if w := l.counted().Writes; w > 2*n+n/10 { // on a busy machine some are sent twice
		t.Errorf("%d writes for %d joins and as many departures", w, n)
	}
	if w := float64(wakeUps.Load()) / float64(n); w > 1.1 {
		t.Errorf("%.2f wake-ups a turn", w)
	}
}
