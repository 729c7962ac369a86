package etcd

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/verify/servers"
)

// The leader's machine is stopped, and when it goes on it has lost the network to the other members, but not to the client,
// as after a migration that went wrong. Until it finds out that it leads no longer, it renews leases in its own memory. (By
// the answers to renewals alone, two held for 1.2 to 5.3 s.)
func TestALeaderThatWasReplacedKeepsNobodyInBelief(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	for _, stops := range []time.Duration{4700 * time.Millisecond, 5500 * time.Millisecond} {
		t.Run(fmt.Sprint(stops), func(t *testing.T) {
			t.Parallel()
			cluster := servers.Etcd(t, servers.Members(3), servers.Links(), servers.ElectionTimeout(time.Second))
			leader := cluster.Leader(t)
			var others []string
			for _, m := range cluster.Members() {
				if m != leader {
					others = append(others, m.Addr())
				}
			}
			holder := open(t, connectLink(t, leader.Addr()), WithTTL(10*time.Second))
			next := open(t, connectLink(t, others...), WithTTL(10*time.Second))
			me, _ := join(t, holder, entry("deposed", "lock"))
			behind, ahead := join(t, next, entry("deposed", "lock"))
			granted := waiter(t, behind, ahead)
			for was := holder.Deadline(); holder.Deadline().Equal(was); time.Sleep(time.Millisecond) {
			}
			leader.Freeze()
			defer cluster.Isolate(leader)()
			thaw := time.AfterFunc(stops, leader.Thaw)
			defer thaw.Stop()

			var last time.Time // as far as the holder has ever believed
			limit := time.After(time.Minute)
			for {
				last = holder.Deadline()
				select {
				case err := <-granted:
					if err != nil {
						t.Fatal(err)
					}
					if both := time.Until(last); both > 0 {
						t.Errorf("two hold for %v: %d and %d", both, me.Node().Token, behind.Node().Token)
					}
					return
				case <-limit:
					t.Fatal("the next one is never let in")
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
}

// asks counts what a link asks for its session's upkeep.
func asks(l *link) (renewals, reads *atomic.Int64) {
	renewals, reads = new(atomic.Int64), new(atomic.Int64)
	see := func(_ string, req any) {
		switch r := req.(type) {
		case *pb.LeaseKeepAliveRequest:
			renewals.Add(1)
		case *pb.RangeRequest:
			if ofSession(r.Key) && r.KeysOnly && !r.Serializable {
				reads.Add(1)
			}
		}
	}
	l.onSend.Store(&see)
	return renewals, reads
}

func TestARenewalComesWithAReadUnlessTheSessionIsBusy(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	const ttl = 3 * time.Second
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l, WithTTL(ttl))
	time.Sleep(ttl / 6) // the first check of the session is over
	renewals, reads := asks(l)
	time.Sleep(ttl)
	if r, n := renewals.Load(), reads.Load(); n < 2 || n != r {
		t.Errorf("while idle there were %d renewals and %d reads", r, n)
	}
	renewals, reads = asks(l)
	for begun := time.Now(); time.Since(begun) < ttl; time.Sleep(time.Millisecond) {
		me, _ := join(t, s, entry("busy", "lock"))
		leave(t, me, true)
	}
	if r, n := renewals.Load(), reads.Load(); r < 2 || n > 0 {
		t.Errorf("while busy there were %d renewals and %d reads", r, n)
	}
	if left := time.Until(s.Deadline()); left < ttl/2 {
		t.Errorf("while busy, %v are left", left)
	}
}

// A member that lags behind passes a renewal on and names a term that is over, while a read names the present one. The
// renewal does not count; another is sent at once, and by way of another member.
func TestARenewalOfAnOldTermIsRepeatedAtOnce(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	var sent []time.Time
	var lagging atomic.Bool
	done := make(chan struct{})
	spoil := func(reply any) {
		r, ok := reply.(*pb.LeaseKeepAliveResponse)
		if !ok || !lagging.Load() {
			return
		}
		if sent = append(sent, time.Now()); len(sent) < 3 {
			r.Header.RaftTerm--
			return
		}
		lagging.Store(false)
		close(done)
	}
	const ttl = 6 * time.Second
	l := connectLinkWith(t, clientv3.Config{DialOptions: spoiling(spoil)}, cluster.Addrs()...)
	s := open(t, l, WithTTL(ttl))
	lagging.Store(true)
	before := s.Deadline()
	select {
	case <-done:
	case <-time.After(ttl):
		t.Fatal("it is not renewed again")
	}
	if took := sent[2].Sub(sent[0]); took > ttl/6 {
		t.Errorf("three renewals took %v", took)
	}
	for limit := time.Now().Add(time.Second); !s.Deadline().After(before); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the last one does not count")
		}
	}
}

// Once the others are at a later term, what the client was told by the former leader counts no more.
func TestAnOldTermMovesNoDeadline(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	spoil := func(reply any) {
		if r, ok := reply.(*pb.LeaseKeepAliveResponse); ok {
			r.Header.RaftTerm--
		}
	}
	const ttl = 2 * time.Second
	s := open(t, connectLinkWith(t, clientv3.Config{DialOptions: spoiling(spoil)}, cluster.Addrs()...), WithTTL(ttl))
	opened := s.Deadline()
	time.Sleep(ttl)
	if d := s.Deadline(); !d.Equal(opened) {
		t.Errorf("the deadline has moved by %v", d.Sub(opened))
	}
	if s.life.Over() {
		t.Errorf("the session has ended: %v", s.life.Why())
	}
}
