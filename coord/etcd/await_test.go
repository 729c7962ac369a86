package etcd

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/servers"
)

// waiter awaits its turn in the background.
func waiter(t testing.TB, me driver.Place, ahead []driver.Node) <-chan error {
	answer := make(chan error, 1)
	ctx := within(t, time.Minute)
	go func() {
		_, err := turn(ctx, me, ahead)
		answer <- err
	}()
	return answer
}

func answers(t testing.TB, c <-chan error, d time.Duration, want error, what string) {
	t.Helper()
	select {
	case err := <-c:
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	case <-time.After(d):
		t.Errorf("%s: no answer within %v", what, d)
	}
}

func silent(t testing.TB, c <-chan error, d time.Duration, what string) {
	t.Helper()
	select {
	case err := <-c:
		t.Errorf("%s: answered (%v)", what, err)
	case <-time.After(d):
	}
}

func TestAwaitEndsWhenTheOneAheadIsAmendedOrLeaves(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	s := open(t, connectLink(t, cluster.Addrs()...))
	head, _ := join(t, s, entry("told", "W"))
	middle, behindHead := join(t, s, entry("told", "W"))
	last, ahead := join(t, s, entry("told", "W"))
	told := func(p driver.Place, wait []driver.Node, do func(), left int) []driver.Node {
		t.Helper()
		time.AfterFunc(50*time.Millisecond, do)
		ahead, err := p.Await(within(t, 10*time.Second), wait)
		if err != nil || len(ahead) != left {
			t.Errorf("%d ahead, %v; want %d", len(ahead), err, left)
		}
		return ahead
	}
	amend := func() {
		if err := middle.Amend(within(t, 10*time.Second), "R", nil); err != nil {
			t.Errorf("amend: %v", err)
		}
	}
	ahead = told(last, ahead, amend, 1)
	told(middle, behindHead, func() { leave(t, head, true) }, 0)
	told(last, ahead, func() { leave(t, middle, true) }, 0)
	leave(t, last, true)
}

// A watch that resumes at a compacted revision is closed with an error. Ours never resume.
func TestWaiterOutlivesCompactionAndBrokenStream(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	root := direct(t, cluster)
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l)
	holder := open(t, connectLink(t, cluster.Addrs()...))
	for _, held := range []bool{true, false} {
		head, _ := join(t, holder, entry("compacted", "lock"))
		me, ahead := join(t, s, entry("compacted", "lock"))
		c := waiter(t, me, ahead)
		time.Sleep(50 * time.Millisecond)
		heal := l.cut()
		var rev int64
		for i := range 50 {
			put, err := root.Put(within(t, 10*time.Second), "elsewhere", fmt.Sprint(i))
			if err != nil {
				t.Fatal(err)
			}
			rev = put.Header.Revision
		}
		leave(t, head, held)
		if _, err := root.Compact(within(t, 10*time.Second), rev+1); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			t.Fatal(err)
		}
		if _, err := root.Put(within(t, 10*time.Second), "elsewhere", "later"); err != nil {
			t.Fatal(err)
		}
		heal()
		answers(t, c, 3*time.Second, nil, "await")
		leave(t, me, true)
	}
}

// A watch may be older than the wait that shares it, and its member may lag behind: what it reports may be old, and must
// not be taken for the present state.
func TestWhoHadLeftBeforeTheWaitIsNotSeenAgain(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	crowd := open(t, connectLink(t, cluster.Addrs()...))
	var some []driver.Place
	for range 3 {
		n, _ := join(t, crowd, entry("long gone", "S1of3"))
		some = append(some, n)
	}
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l)
	e := entry("long gone", "S3of3")
	e.Sight = driver.Sight{Nearest: driver.All}
	me, ahead := join(t, s, e)
	await := func() []driver.Node {
		t.Helper()
		ahead, err := me.Await(within(t, 3*time.Second), ahead)
		if err != nil {
			t.Fatal(err)
		}
		return ahead
	}
	time.AfterFunc(50*time.Millisecond, func() { leave(t, some[0], false) })
	if ahead = await(); len(ahead) != 2 {
		t.Fatalf("ahead are %v, want the two that stand", ahead)
	}
	end := make(chan struct{})
	defer close(end)
	late := func() { <-end }
	l.onEvent.Store(&late)
	leave(t, some[1], false)
	leave(t, some[2], false)
	if ahead = await(); len(ahead) != 0 {
		t.Errorf("ahead are %v, but all had left", ahead)
	}
}

// A key is reused, and its watch is shared: news of the former node may arrive when the next one stands.
func TestWordOfTheFormerNodeIsNoRemoval(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l)
	watch := func(p driver.Place) (gone <-chan error, stop func()) {
		ctx, stop := context.WithCancel(within(t, 20*time.Second))
		c := make(chan error, 1)
		go func() { c <- p.Watch(ctx) }()
		time.Sleep(50 * time.Millisecond)
		return c, stop
	}
	former, _ := join(t, s, entry("again", "lock"))
	_, stop := watch(former)
	stop()
	end := make(chan struct{})
	late := func() { <-end }
	l.onEvent.Store(&late)
	leave(t, former, false)
	next, _ := join(t, s, entry("again", "lock"))
	if next.(*place).key != former.(*place).key {
		t.Fatalf("the key %q was not used again", former.(*place).key)
	}
	gone, stop := watch(next)
	defer stop()
	close(end)
	silent(t, gone, 300*time.Millisecond, "the node stands")
	leave(t, next, true)
}

// The revision of the deletion may be compacted between the event and the read that the event makes the waiter do.
func TestHandOverWhoseRevisionIsCompacted(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	root := direct(t, cluster)
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l)
	head, _ := join(t, s, entry("compacted later", "lock"))
	me, ahead := join(t, s, entry("compacted later", "lock"))
	c := waiter(t, me, ahead)
	time.Sleep(50 * time.Millisecond)
	compact := func(_ string, req any) {
		txn, ok := req.(*pb.TxnRequest)
		if !ok || isWrite(txn) || txn.Success[0].GetRequestRange().GetRevision() == 0 {
			return
		}
		put, err := root.Put(context.Background(), "elsewhere", "")
		if err == nil {
			_, err = root.Compact(context.Background(), put.Header.Revision)
		}
		if err != nil {
			t.Errorf("compact: %v", err)
		}
	}
	l.onSend.Store(&compact)
	leave(t, head, true)
	answers(t, c, 3*time.Second, nil, "await")
	l.onSend.Store(nil)
	leave(t, me, true)
}

func TestRemovalIsNoticedWhileWaitingAndWhileHolding(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	operator := connectLink(t, cluster.Addrs()...).service(t)
	s := open(t, connectLink(t, cluster.Addrs()...))
	head, _ := join(t, s, entry("removal", "lock"))
	middle, ahead := join(t, s, entry("removal", "lock"))
	last, before := join(t, s, entry("removal", "lock"))
	holding := make(chan error, 1)
	go func() {
		err := head.Watch(within(t, time.Minute))
		holding <- err
	}()
	waiting, behind := waiter(t, middle, ahead), waiter(t, last, before)
	time.Sleep(100 * time.Millisecond)
	if err := operator.Remove(within(t, 10*time.Second), middle.Node()); err != nil {
		t.Fatal(err)
	}
	answers(t, waiting, 2*time.Second, driver.ErrRemoved, "the waiter that was removed")
	silent(t, behind, 100*time.Millisecond, "the one behind, with the head still standing")
	if err := operator.Remove(within(t, 10*time.Second), head.Node()); err != nil {
		t.Fatal(err)
	}
	answers(t, holding, 2*time.Second, driver.ErrRemoved, "the holder that was removed")
	answers(t, behind, 2*time.Second, nil, "the one behind")
	if err := operator.Remove(within(t, 10*time.Second), head.Node()); !errors.Is(err, driver.ErrRemoved) {
		t.Errorf("the second removal: %v", err)
	}
	leave(t, last, true)
}

// The one ahead leaves and the waiter's own key is removed at the same time: whichever news comes first, the waiter
// must not go in.
func TestRemovedWaiterIsNeverLetIn(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	root := direct(t, cluster)
	s := open(t, connectLink(t, cluster.Addrs()...))
	for i := range 30 {
		head, _ := join(t, s, entry("both", "lock"))
		me, ahead := join(t, s, entry("both", "lock"))
		c := waiter(t, me, ahead)
		time.Sleep(time.Duration(i%3) * 15 * time.Millisecond)
		headKey, _, _ := parseID(head.Node().ID)
		ownKey, _, _ := parseID(me.Node().ID)
		ops := []clientv3.Op{
			clientv3.OpDelete(headKey), clientv3.OpDelete(ownKey),
		}
		if _, err := root.Txn(within(t, 10*time.Second)).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
		answers(t, c, 5*time.Second, driver.ErrRemoved, fmt.Sprintf("round %d", i))
		leave(t, me, false)
		leave(t, head, false)
	}
}

// etcd #22082: a deletion by key alone that is applied late removes the node that has the key by then.
func TestLateDepartureRemovesNobodyElse(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	root := direct(t, cluster)
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l)
	me, _ := join(t, s, entry("late departure", "lock"))
	r := l.fate(drivertest.AppliedLate, changesNode)
	if err := me.Leave(within(t, 10*time.Second), true); err != nil {
		t.Fatal(err)
	}
	<-r.met
	key, _, _ := parseID(me.Node().ID)
	if _, err := root.Put(within(t, 10*time.Second), key, "somebody else, for all we know"); err != nil {
		t.Fatal(err)
	}
	stays(t, root, "late departure", 1, 2*drivertest.Late)
	if err := me.Leave(within(t, 10*time.Second), true); err != nil {
		t.Fatal(err)
	}
	stays(t, root, "late departure", 1, 0)
	if _, err := root.Delete(within(t, 10*time.Second), key); err != nil {
		t.Fatal(err)
	}
}

// A departure whose replies are all lost goes on in the background, and the call returns in time.
func TestDepartureGoesOnInTheBackground(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	root := direct(t, cluster)
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l)
	me, _ := join(t, s, entry("background", "lock"))
	thaw := l.freeze(drivertest.Both)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if err := me.Leave(ctx, true); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("leave: %v, want the context's error", err)
	}
	if took := time.Since(begun); took > 150*time.Millisecond+raceSlack {
		t.Errorf("it came back after %v", took)
	}
	thaw()
	stays(t, root, "background", 0, 0)
}

// An election's value, or whatever anybody writes, must never be taken for the end of the one ahead.
func TestWritesByOthersLetNobodyIn(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	root := direct(t, cluster)
	s := open(t, connectLink(t, cluster.Addrs()...))
	head, _ := join(t, s, entry("writes", "lead"))
	middle, ahead := join(t, s, entry("writes", "lead"))
	last, before := join(t, s, entry("writes", "lead"))
	c, behind := waiter(t, middle, ahead), waiter(t, last, before)
	time.Sleep(50 * time.Millisecond)
	for i := range 5 {
		if err := head.Amend(within(t, 10*time.Second), "lead", fmt.Append(nil, "value ", i)); err != nil {
			t.Fatal(err)
		}
	}
	key, _, _ := parseID(middle.Node().ID)
	if _, err := root.Delete(within(t, 10*time.Second), key); err != nil {
		t.Fatal(err)
	}
	answers(t, c, 2*time.Second, driver.ErrRemoved, "the one in the middle")
	silent(t, behind, 100*time.Millisecond, "the last one, with the head still standing")
	leave(t, head, true)
	answers(t, behind, 2*time.Second, nil, "the last one")
	leave(t, last, true)
}

// A stream that does not answer is given up within seconds. The client library gives its streams up after 13 s at best, and
// by default never.
func TestSilentStreamIsLeft(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	cluster := servers.Etcd(t, servers.Members(3))
	for i := range 3 { // the stream goes through one of the three
		t.Run(fmt.Sprint("member ", i, " is silent"), func(t *testing.T) {
			t.Parallel()
			l := connectLink(t, cluster.Addrs()...)
			s := open(t, l)
			holder := open(t, connectLink(t, cluster.Addrs()...))
			line := fmt.Sprint("silent ", i)
			head, _ := join(t, holder, entry(line, "lock"))
			me, ahead := join(t, s, entry(line, "lock"))
			c := waiter(t, me, ahead)
			time.Sleep(100 * time.Millisecond)
			l.proxies[i].Stall()
			leave(t, head, true)
			begun := time.Now()
			// The next stream may go through the same member once or twice.
			answers(t, c, pingEvery+5*silence, nil, "await")
			t.Logf("heard of it after %v", time.Since(begun))
			leave(t, me, true)
		})
	}
}

// Semaphores wait for many nodes, more than fit into one transaction.
func TestWaitForOneOfManyNodes(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	s := open(t, connectLink(t, cluster.Addrs()...))
	const n = 150
	var places []driver.Place
	for range n {
		me, _ := join(t, s, entry("several", "S1of150"))
		places = append(places, me)
	}
	e := entry("several", "S1of150")
	e.Sight.Nearest = driver.All
	me, ahead := join(t, s, e)
	if len(ahead) != n {
		t.Fatalf("%d ahead, want %d", len(ahead), n)
	}
	for i, gone := range []int{n - 1, 0, n / 2} {
		c := make(chan []driver.Node, 1)
		go func() {
			ahead, err := me.Await(within(t, 20*time.Second), ahead)
			if err != nil {
				t.Errorf("await: %v", err)
			}
			c <- ahead
		}()
		time.Sleep(50 * time.Millisecond)
		leave(t, places[gone], false)
		select {
		case ahead = <-c:
		case <-time.After(5 * time.Second):
			t.Fatal("the wake-up was lost")
		}
		if len(ahead) != n-i-1 {
			t.Errorf("%d ahead, want %d", len(ahead), n-i-1)
		}
	}
	for _, p := range append(places, me) {
		leave(t, p, false)
	}
}

// A waiter that gives up leaves no watch behind, here or at the service.
func TestWaitersThatGiveUpLeaveNoWatch(t *testing.T) {
	cluster := servers.Etcd(t)
	s := open(t, connectLink(t, cluster.Addrs()...))
	head, _ := join(t, s, entry("quitters", "lock"))
	me, ahead := join(t, s, entry("quitters", "lock"))
	for range 200 {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
		if _, err := me.Await(ctx, ahead); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("await: %v", err)
		}
		cancel()
	}
	// There is the session's own watch, for a moment the one that all of them shared, and, on a busy machine, the one of the
	// waiter's own key.
	if here := s.watches.size(); here > 3 {
		t.Errorf("%d watches are left here", here)
	}
	var here int
	var there float64
	for limit := time.Now().Add(5 * time.Second); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		numbers, err := cluster.Member(0).Metrics(within(t, 10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		here, there = s.watches.size(), numbers.Sum("etcd_debugging_mvcc_watcher_total")
		if here == 1 && there <= 2 {
			break
		}
	}
	if here != 1 || there > 2 { // the session's own, and for a moment the ping of its stream
		t.Errorf("%d watches are left here, and %v at the service", here, there)
	}
	leave(t, me, false)
	leave(t, head, true)
}

// A watch that nobody wants by the time it is open is closed. Nobody ever wants the watch of a ping.
func TestPingsLeaveNoWatch(t *testing.T) {
	cluster := servers.Etcd(t)
	s := open(t, connectLink(t, cluster.Addrs()...))
	listening(t, s)
	ctx := within(t, 60*time.Second)
	for pings := 0; pings < 20; time.Sleep(time.Millisecond) {
		s.watches.mu.Lock()
		if s.watches.live && len(s.watches.pending) == 0 {
			s.watches.ping()
			pings++
		}
		s.watches.mu.Unlock()
		if ctx.Err() != nil {
			t.Fatalf("%d pings, and no answer", pings)
		}
	}
	for there := 20.0; there > 4; time.Sleep(20 * time.Millisecond) {
		numbers, err := cluster.Member(0).Metrics(ctx)
		if err != nil {
			t.Fatalf("%v watches are left at the service: %v", there, err)
		}
		there = numbers.Sum("etcd_debugging_mvcc_watcher_total")
	}
}

// listening waits until the session's stream of events is open.
func listening(t *testing.T, s *session) {
	t.Helper()
	v := s.watches.vigil(span{key: "up"}, 1)
	defer v.end()
	if _, err := v.next(within(t, 20*time.Second), time.Minute); err != nil {
		t.Fatal(err)
	}
}

// A line that is listened to again and again keeps its own watch open, and no other.
func TestAHotLineKeepsNoOtherWatches(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	s := open(t, connectLink(t, cluster.Addrs()...))
	listen := func(line string) { s.watches.vigil(span{key: line}, 0).end() }
	listening(t, s)
	listen("hot")
	for i := range 60 {
		listen(fmt.Sprint("once ", i))
	}
	for limit := time.Now().Add(20 * time.Second); s.watches.size() > 4; time.Sleep(100 * time.Millisecond) {
		listen("hot")
		if time.Now().After(limit) {
			t.Fatalf("%d watches are left", s.watches.size())
		}
	}
}
