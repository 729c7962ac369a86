package etcd

import (
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/servers"
)

// crowdIn makes many readers join a line.
func crowdIn(t *testing.T, s *session, line string, n int) []driver.Place {
	t.Helper()
	e := entry(line, "R")
	e.Sight = driver.Sight{Ignore: []string{"R"}}
	crowd := make([]driver.Place, n)
	var all sync.WaitGroup
	for i := range crowd {
		all.Go(func() { crowd[i], _, _ = s.Join(within(t, 30*time.Second), e) })
	}
	all.Wait()
	return crowd
}

func leaveAtOnce(t *testing.T, crowd []driver.Place) {
	t.Helper()
	var all sync.WaitGroup
	for _, me := range crowd {
		all.Go(func() {
			if err := me.Leave(within(t, 30*time.Second), false); err != nil {
				t.Errorf("leave: %v", err)
			}
		})
	}
	all.Wait()
}

func TestACrowdLeavesTogether(t *testing.T) {
	const n = 300
	cluster := servers.Etcd(t, servers.Shared())
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l)
	crowd := crowdIn(t, s, "crowd", n)
	start := l.counted()
	leaveAtOnce(t, crowd)
	if left := stored(t, l.client, "crowd"); len(left) > 0 {
		t.Errorf("%d of %d are still there", len(left), n)
	}
	if spent := l.counted().Sub(start); spent.Writes > n/3 {
		t.Errorf("%d left with %d transactions", n, spent.Writes)
	}
}

func TestACrowdLeavesWhateverIsLost(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	for _, fate := range []drivertest.Fate{drivertest.LostBefore, drivertest.LostAfter, drivertest.AppliedLate} {
		l := connectLink(t, cluster.Addrs()...)
		s := open(t, l)
		crowd := crowdIn(t, s, "lossy crowd", 200)
		for range 10 {
			l.fate(fate, changesNode)
		}
		leaveAtOnce(t, crowd)
		if left := stored(t, l.client, "lossy crowd"); len(left) > 0 {
			t.Errorf("%d are still there", len(left))
		}
	}
}

// etcd #22082, in a crowd: what is taken away is an incarnation, not a key.
func TestInACrowdNobodyElseIsTakenAway(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l)
	crowd := crowdIn(t, s, "mixed crowd", 3)
	var who []departure
	for _, me := range crowd {
		key, created, _ := parseID(me.Node().ID)
		who = append(who, departure{key: key, created: created})
	}
	who[1].created-- // an earlier incarnation of that key
	if err := s.leaving.commit(within(t, 10*time.Second), who...); err != nil {
		t.Fatal(err)
	}
	if left := stored(t, l.client, "mixed crowd"); len(left) != 1 || left[0] != who[1].key {
		t.Errorf("%q are left, want %q", left, who[1].key)
	}
	leave(t, crowd[1], true)
}

func TestACrowdLeavesOneByOneWhereItMayNotTogether(t *testing.T) {
	cluster := servers.Etcd(t, servers.Flags("--max-txn-ops=8"))
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l)
	leaveAtOnce(t, crowdIn(t, s, "small steps", 100))
	if left := stored(t, l.client, "small steps"); len(left) > 0 {
		t.Errorf("%d are still there", len(left))
	}
}

// Anyone who may write below the root can forge a mark that says that a node has left as the holder. When that node gives
// up, or is taken away, with others still ahead, nobody is let in.
func TestForgedMarkLetsNobodyIn(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	forger := direct(t, cluster)
	ctx := within(t, time.Minute)
	for name, end := range map[string]func(t *testing.T, middle *place, mark clientv3.Op){
		"before it gives up": func(t *testing.T, middle *place, mark clientv3.Op) {
			if _, err := forger.Do(ctx, mark); err != nil {
				t.Fatal(err)
			}
			leave(t, middle, false)
		},
		"in the transaction that takes it away": func(t *testing.T, middle *place, mark clientv3.Op) {
			if _, err := forger.Txn(ctx).Then(clientv3.OpDelete(middle.key), mark).Commit(); err != nil {
				t.Fatal(err)
			}
		},
		"by a waiter of its own": func(t *testing.T, middle *place, _ clientv3.Op) { leave(t, middle, true) },
	} {
		t.Run(name, func(t *testing.T) {
			holder := open(t, connectLink(t, cluster.Addrs()...))
			head, _ := join(t, holder, entry("forged", "lock"))
			next, _ := join(t, holder, entry("forged", "lock"))
			between, _ := join(t, open(t, connectLink(t, cluster.Addrs()...)), entry("forged", "lock"))
			last, ahead := join(t, open(t, connectLink(t, cluster.Addrs()...)), entry("forged", "lock"))
			c := waiter(t, last, ahead)
			time.Sleep(100 * time.Millisecond)
			middle := between.(*place)
			end(t, middle, clientv3.OpPut(fmt.Sprintf("turnwise//session/%x/left", int64(middle.lease)), fmt.Sprint(middle.created)))
			silent(t, c, 500*time.Millisecond, "the last, with two still ahead")
			leave(t, head, true)
			leave(t, next, true)
			answers(t, c, 5*time.Second, nil, "the last")
			leave(t, last, true)
		})
	}
}

// A reader may hold beside others: that nobody is in its way does not mean that nobody is ahead.
func TestAReaderTellsNothingOfThoseAhead(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	reader := entry("beside", "R")
	reader.Sight = driver.Sight{Ignore: []string{"R"}}
	first, _ := join(t, open(t, connectLink(t, cluster.Addrs()...)), reader)
	s := open(t, connectLink(t, cluster.Addrs()...))
	second, _ := join(t, s, reader)
	writer, ahead := join(t, s, entry("beside", "W"))
	c := waiter(t, writer, ahead)
	time.Sleep(100 * time.Millisecond)
	leave(t, second, false)
	silent(t, c, 500*time.Millisecond, "the writer, with a reader still ahead")
	leave(t, first, false)
	answers(t, c, 5*time.Second, nil, "the writer")
	leave(t, writer, true)
}
