package etcd

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/servers"
)

// These tests are the cells of the table in docs/security.md: what somebody can do who has one right and no other.

// neighbourhood is a line, with a holder and a waiter, each in a session of its own, and bob.
type neighbourhood struct {
	testing.TB
	root   *clientv3.Client // of the operator
	bob    *clientv3.Client
	sess   *session
	holder driver.Place
	second driver.Place
	waiter <-chan error
}

// playNeighbours gives bob a right on all keys with a prefix; "" stands for none.
func playNeighbours(t *testing.T, may clientv3.PermissionType, prefix string) *neighbourhood {
	cluster, _ := guarded(t)
	n := &neighbourhood{TB: t, root: connectLinkWith(t, asUser("root"), cluster.Addrs()...).client}
	n.must(n.root.RoleAdd(within(t, 10*time.Second), "bob"))
	if prefix != "" {
		n.must(n.root.RoleGrantPermission(within(t, 10*time.Second), "bob", prefix, clientv3.GetPrefixRangeEnd(prefix), may))
	}
	n.must(n.root.UserAdd(within(t, 10*time.Second), "bob", "bob"))
	n.must(n.root.UserGrantRole(within(t, 10*time.Second), "bob", "bob"))
	n.bob = connectLinkWith(t, asUser("bob"), cluster.Addrs()...).client
	n.sess = open(t, connectLinkWith(t, asUser("locks"), cluster.Addrs()...))
	n.holder, _ = join(t, n.sess, entry("a", "lock"))
	var ahead []driver.Node
	n.second, ahead = join(t, open(t, connectLinkWith(t, asUser("locks"), cluster.Addrs()...)), entry("a", "lock"))
	n.waiter = waiter(t, n.second, ahead)
	return n
}

func (n *neighbourhood) must(_ any, err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

func (n *neighbourhood) denied(what string, err error) {
	n.Helper()
	if !errors.Is(err, rpctypes.ErrPermissionDenied) {
		n.Errorf("%s: %v", what, err)
	}
}

// key is where the holder stands.
func (n *neighbourhood) key() string { return n.holder.(*place).key }

// handsOver has the holder leave and the one behind enter.
func (n *neighbourhood) handsOver() {
	n.Helper()
	silent(n, n.waiter, 500*time.Millisecond, "beside the holder")
	leave(n, n.holder, true)
	answers(n, n.waiter, 10*time.Second, nil, "the one behind")
}

// mayNotTouch makes sure that bob cannot change anything of the session or the line.
func (n *neighbourhood) mayNotTouch() {
	n.Helper()
	ctx := within(n, 20*time.Second)
	_, err := n.bob.Put(ctx, n.key(), "x")
	n.denied("put", err)
	_, err = n.bob.Put(ctx, n.sess.d.keys.line("a")+"lock/1-1", "x")
	n.denied("put another", err)
	_, err = n.bob.Delete(ctx, n.key())
	n.denied("delete", err)
	n.mayNotTouchTheSession()
}

func (n *neighbourhood) mayNotTouchTheSession() {
	n.Helper()
	ctx := within(n, 20*time.Second)
	_, err := n.bob.Put(ctx, n.sess.d.keys.epoch(n.sess.lease), "x")
	n.denied("put the epoch", err)
	_, err = n.bob.Revoke(ctx, n.sess.lease)
	n.denied("revoke", err)
	_, err = n.bob.KeepAliveOnce(ctx, n.sess.lease)
	n.denied("keep alive", err)
}

const (
	mayRead  = clientv3.PermissionType(clientv3.PermRead)
	mayWrite = clientv3.PermissionType(clientv3.PermWrite)
)

func lineA() string { return layout{root: defaultRoot}.line("a") }

func TestNeighbourWithoutRights(t *testing.T) {
	n := playNeighbours(t, mayRead, "")
	_, err := n.bob.Get(within(t, 10*time.Second), n.key())
	n.denied("get", err)
	_, err = n.bob.Leases(within(t, 10*time.Second))
	n.denied("leases", err)
	n.mayNotTouch()
	n.handsOver()
}

// A lease with a key of bob's on it we could neither renew nor end any more, as we have no right on that.
func TestNeighbourMayPutNothingOnOurLease(t *testing.T) {
	n := playNeighbours(t, mayWrite, "bobs/")
	ctx := within(t, 20*time.Second)
	put := clientv3.OpPut("bobs/x", "x", clientv3.WithLease(n.sess.lease))
	_, err := n.bob.Do(ctx, put)
	n.denied("put", err)
	_, err = n.bob.Txn(ctx).Then(put).Commit()
	n.denied("put in a transaction", err)
	_, err = n.bob.Txn(ctx).Then(clientv3.OpTxn(nil, []clientv3.Op{put}, nil)).Commit()
	n.denied("put in a transaction within another", err)
	_, err = n.bob.Txn(ctx).If(clientv3.Compare(clientv3.Version(n.key()), ">", 0)).Commit()
	n.denied("compare", err)
	_, err = n.bob.Delete(ctx, "bobs/", clientv3.WithFromKey())
	n.denied("delete all from his on", err)
	_, err = n.bob.Compact(ctx, 1)
	n.denied("compact", err)
	_, err = n.bob.TimeToLive(ctx, n.sess.lease, clientv3.WithAttachedKeys())
	n.denied("look at the lease", err)
	n.handsOver()
}

// Rights are only as good as the server that looks after them. One of 2022 lets anybody who has a name end holds, keep the sessions of
// dead processes, and switch the looking off; an alarm that keeps everybody from writing even somebody without a name may raise.
func TestOldServersLetNeighboursWithoutRightsDoAnything(t *testing.T) {
	for _, old := range []bool{true, false} {
		t.Run(map[bool]string{true: "an old server", false: "a new one"}[old], func(t *testing.T) {
			var opts []servers.Option
			if old {
				opts = append(opts, servers.OldEtcd())
			}
			cluster, _ := guarded(t, opts...)
			sess := open(t, connectLinkWith(t, asUser("locks"), cluster.Addrs()...))
			holder, _ := join(t, sess, entry("a", "lock"))
			bob := connectLinkWith(t, asUser("nobody"), cluster.Addrs()...).client
			nobody := connectLinkWith(t, clientv3.Config{}, cluster.Addrs()...).client
			ctx := within(t, 20*time.Second)
			may := func(what string, err error) {
				t.Helper()
				if old != (err == nil) {
					t.Errorf("%s: %v", what, err)
				}
			}
			_, err := nobody.KeepAliveOnce(ctx, sess.lease)
			may("keep a session", err)
			remove := clientv3.OpDelete(holder.(*place).key)
			_, err = bob.Txn(ctx).Then(remove).Commit()
			if !errors.Is(err, rpctypes.ErrPermissionDenied) {
				t.Errorf("end a hold: %v", err)
			}
			_, err = bob.Txn(ctx).Then(clientv3.OpTxn(nil, []clientv3.Op{remove}, nil)).Commit()
			may("end a hold in a transaction within another", err)
			said, err := pb.NewMaintenanceClient(bob.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = pb.NewMaintenanceClient(nobody.ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{
				Action: pb.AlarmRequest_ACTIVATE, MemberID: said.Header.MemberId, Alarm: pb.AlarmType_NOSPACE})
			may("raise an alarm", err)
			_, err = bob.AuthDisable(ctx)
			may("switch rights off", err)
		})
	}
}

func TestNeighbourWhoMayReadTheLine(t *testing.T) {
	n := playNeighbours(t, mayRead, lineA())
	got, err := n.bob.Get(within(t, 10*time.Second), n.key())
	if err != nil || len(got.Kvs) != 1 || !strings.Contains(string(got.Kvs[0].Value), `"host" 1`) {
		t.Errorf("he sees who stands there and what they say: %v, %v", got, err)
	}
	n.mayNotTouch()
	n.handsOver()
}

// Bob may guess the number of the lease, and be granted one of that number as soon as it has expired. A process that was cut off for so
// long must not go on with that one: what it puts there would stay for as long as bob has said, whatever becomes of the process.
func TestNeighbourWhoIsGrantedALeaseOfTheSameNumberKeepsNobodysPlace(t *testing.T) {
	cluster, _ := guarded(t)
	l := connectLinkWith(t, asUser("locks"), cluster.Addrs()...)
	s := open(t, l, WithTTL(2*time.Second))
	join(t, s, entry("a", "lock"))
	bob := pb.NewLeaseClient(connectLinkWith(t, asUser("nobody"), cluster.Addrs()...).client.ActiveConnection())
	back := l.freeze(drivertest.Requests)
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, err := bob.LeaseGrant(within(t, 20*time.Second), &pb.LeaseGrantRequest{ID: int64(s.lease), TTL: 3600})
		if err == nil {
			break
		}
		if !is(rpctypes.Error(err), rpctypes.ErrLeaseExist) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
	back()
	select {
	case <-s.Done():
	case <-time.After(5 * time.Second):
		_, _, err := s.Join(within(t, 20*time.Second), entry("a", "lock"))
		t.Logf("the session goes on, and joins: %v", err)
	}
	l.freeze(drivertest.Requests) // the process dies
	next, ahead := join(t, open(t, connectLinkWith(t, asUser("locks"), cluster.Addrs()...)), entry("a", "lock"))
	answers(t, waiter(t, next, ahead), 30*time.Second, nil, "the one behind a process that has died")
}

// Bob can end a hold, as an operator does. The holder hears of it at once.
func TestNeighbourWhoMayWriteTheLineDeletes(t *testing.T) {
	n := playNeighbours(t, mayWrite, lineA())
	held := make(chan error, 1)
	go func() { held <- n.holder.Watch(within(t, time.Minute)) }()
	silent(t, n.waiter, 500*time.Millisecond, "beside the holder")
	_, err := n.bob.Delete(within(t, 10*time.Second), n.key())
	n.must(nil, err)
	answers(t, held, 10*time.Second, driver.ErrRemoved, "the holder")
	answers(t, n.waiter, 10*time.Second, nil, "the one behind")
	select {
	case <-n.sess.Done():
		t.Error("the session has ended")
	default:
	}
	n.mayNotTouchTheSession()
}

// Bob can stand in line for as long as he likes. An operator can take his key away.
func TestNeighbourWhoMayWriteTheLineStandsInIt(t *testing.T) {
	n := playNeighbours(t, mayWrite, lineA())
	_, err := n.bob.Put(within(t, 10*time.Second), lineA()+"lock/1-1", "")
	n.must(nil, err)
	n.handsOver()
	third, ahead := join(t, n.sess, entry("a", "lock"))
	blocked := waiter(t, third, ahead)
	leave(t, n.second, true)
	silent(t, blocked, 500*time.Millisecond, "behind bob")
	nodes, err := n.sess.d.Line(within(t, 10*time.Second), "a")
	if err != nil || len(nodes) != 2 {
		t.Fatalf("%v, %v", nodes, err)
	}
	n.must(nil, n.sess.d.Remove(within(t, 10*time.Second), nodes[0]))
	answers(t, blocked, 10*time.Second, nil, "without bob")
}

// Bob can put words into others' mouths, and a key that he has written stays when its session ends. It lets nobody in.
func TestNeighbourWhoMayWriteTheLineForges(t *testing.T) {
	n := playNeighbours(t, mayWrite, lineA())
	_, err := n.bob.Put(within(t, 10*time.Second), n.key(), "forged")
	n.must(nil, err)
	first, err := drivertest.FirstNode(within(t, 10*time.Second), n.sess.d, "a", nil)
	if err != nil || string(first.Data) != "forged" {
		t.Errorf("the first is %v, %v", first, err)
	}
	silent(t, n.waiter, 500*time.Millisecond, "beside the holder")
	n.must(nil, n.sess.Close(within(t, 10*time.Second)))
	silent(t, n.waiter, 500*time.Millisecond, "behind what bob has left")
	n.must(nil, n.second.(*place).d.Remove(within(t, 10*time.Second), first))
	answers(t, n.waiter, 10*time.Second, nil, "the one behind")
}

// Bob can end whole sessions, with whatever they hold. The holders hear of it at once.
func TestNeighbourWhoMayWriteTheRoot(t *testing.T) {
	n := playNeighbours(t, mayWrite, defaultRoot)
	_, err := n.bob.Revoke(within(t, 10*time.Second), n.sess.lease)
	n.must(nil, err)
	select {
	case <-n.sess.Done():
	case <-time.After(defaultTTL / 2):
		t.Fatal("the session goes on")
	}
	answers(t, n.waiter, 10*time.Second, nil, "the one behind")
}

// Bob can see everybody's lines.
func TestNeighbourWhoMayReadTheRoot(t *testing.T) {
	n := playNeighbours(t, mayRead, defaultRoot)
	got, err := n.bob.Get(within(t, 10*time.Second), defaultRoot, clientv3.WithPrefix())
	if err != nil || got.Count < 4 {
		t.Errorf("he sees %v, %v", got, err)
	}
	n.mayNotTouch()
	n.handsOver()
}

// The right to write elsewhere is no right here: with a root of one's own, users of other roots have no access.
func TestNeighbourWhoMayWriteAnotherRoot(t *testing.T) {
	n := playNeighbours(t, mayWrite, "turnwise2/")
	n.mayNotTouch()
	n.handsOver()
}

// Line x below root outer/in is line in/x below root outer, and what the inner one keeps for itself is in nobody's way.
func TestARootWithinAnotherIsAPartOfIt(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	l := connectLink(t, cluster.Addrs()...)
	open := func(root string) (*service, driver.Session) {
		d := l.service(t, WithRoot(root))
		s, err := d.Open(within(t, 20*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		return d, s
	}
	outer, s := open("outer")
	inner, u := open("outer/in")
	me, _ := join(t, u, entry("x", "lock"))
	behind, ahead := join(t, s, entry("in/x", "lock"))
	if len(ahead) != 1 || ahead[0].ID != me.Node().ID {
		t.Fatalf("ahead of line in/x is %v, want %v", ahead, me.Node())
	}
	handsOn := func(first, second driver.Place, ahead []driver.Node) {
		t.Helper()
		leave(t, first, true)
		if left, err := second.Await(within(t, 20*time.Second), ahead); err != nil || len(left) > 0 {
			t.Errorf("the one behind sees %v, %v", left, err)
		}
		leave(t, second, true)
	}
	for d, want := range map[*service]string{outer: "in/x", inner: "x"} {
		if lines, err := d.Lines(within(t, 20*time.Second), ""); err != nil || !slices.Equal(lines, []string{want}) {
			t.Errorf("lines of %s: %q, %v, want %q", d.keys.root, lines, err, want)
		}
	}
	handsOn(me, behind, ahead)

	// The keys of the inner session have the prefix of this line.
	first, ahead := join(t, s, entry("in", "lock"))
	if len(ahead) > 0 {
		t.Errorf("ahead of line in is %v", ahead)
	}
	second, ahead := join(t, s, entry("in", "lock"))
	handsOn(first, second, ahead)
}

// A memo is not among the keys of its line.
func TestNeighbourWhoMayWriteTheLineMayNotTouchItsMemo(t *testing.T) {
	n := playNeighbours(t, mayWrite, lineA())
	ctx := within(t, 20*time.Second)
	n.must(nil, n.holder.Remember(ctx, []byte("tuesday")))
	key := n.sess.d.keys.memo("a")
	_, err := n.bob.Put(ctx, key, "friday")
	n.denied("put", err)
	_, err = n.bob.Delete(ctx, key)
	n.denied("delete", err)
	if got, err := n.sess.d.Memo(ctx, "a"); err != nil || string(got) != "tuesday" {
		t.Errorf("the memo is %q, %v", got, err)
	}
}

// Bob decides which slots of a job have been run.
func TestNeighbourWhoMayWriteTheMemos(t *testing.T) {
	memos := strings.TrimSuffix(layout{root: defaultRoot}.memo("a"), "a")
	n := playNeighbours(t, mayWrite, memos)
	ctx := within(t, 20*time.Second)
	n.must(nil, n.holder.Remember(ctx, []byte("tuesday")))
	_, err := n.bob.Put(ctx, n.sess.d.keys.memo("a"), "friday")
	n.must(nil, err)
	if got, err := n.sess.d.Memo(ctx, "a"); err != nil || string(got) != "friday" {
		t.Errorf("the memo is %q, %v", got, err)
	}
	n.mayNotTouch()
	n.handsOver()
}
