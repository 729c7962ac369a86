package etcd

import (
	"errors"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// A change that is applied late, after a newer one, must not undo the newer one.
func TestLateAmendmentUndoesNothing(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l)
	me, _ := join(t, s, entry("late amendment", "lead"))
	l.fate(drivertest.AppliedLate, func(m string, req any) bool {
		txn, ok := req.(*pb.TxnRequest)
		return ok && len(txn.Failure) == 1 && changesNode(m, req)
	})
	for _, data := range []string{"first", "second"} {
		if err := me.Amend(within(t, 10*time.Second), "lead", []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	for limit := time.Now().Add(2 * drivertest.Late); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		nodes, err := s.d.Line(within(t, 10*time.Second), "late amendment")
		if err != nil || len(nodes) != 1 || string(nodes[0].Data) != "second" || nodes[0].Token != me.Node().Token {
			t.Fatalf("the line shows %v, %v", nodes, err)
		}
	}
	leave(t, me, true)
}

// What was refused for certain says so, and what may yet be applied does not.
func TestAnAmendmentThatIsRefusedForCertainSaysSo(t *testing.T) {
	cluster, _ := guarded(t)
	root := connectLinkWith(t, asUser("root"), cluster.Addrs()...).client
	l := connectLinkWith(t, asUser("locks"), cluster.Addrs()...)
	s := open(t, l)
	me, _ := join(t, s, entry("refused", "W"))
	mayWrite := func(may clientv3.PermissionType) {
		t.Helper()
		if _, err := root.RoleGrantPermission(within(t, 10*time.Second), "locks", defaultRoot, clientv3.GetPrefixRangeEnd(defaultRoot), may); err != nil {
			t.Fatal(err)
		}
	}
	mayWrite(clientv3.PermissionType(clientv3.PermRead))
	err := me.Amend(within(t, 10*time.Second), "R", nil)
	if !errors.Is(err, driver.ErrDenied) || !errors.Is(err, driver.ErrUnchanged) {
		t.Errorf("without the right: %v", err)
	}
	l.fate(drivertest.LostBefore, changesNode) // the first try has no answer, the next one is refused
	err = me.Amend(within(t, 10*time.Second), "R", nil)
	if errors.Is(err, driver.ErrUnchanged) {
		t.Errorf("although a try may yet be applied: %v", err)
	}
	mayWrite(clientv3.PermissionType(clientv3.PermReadWrite))
	leave(t, me, true)
}

func TestADowngradeThatIsRefusedCostsNothing(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	c := coord.NewClient(connectLink(t, cluster.Addrs()...).service(t, WithNames(Stock)))
	defer c.Close()
	h, err := mutex.New(c, "refused for certain").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Amend(t.Context(), "R", nil); !errors.Is(err, errStockKind) || errors.Is(err, coord.ErrUnsettled) {
		t.Errorf("the amendment says: %v", err)
	}
	if h.Unsettled() || h.Node().Kind != "lock" || h.Err() != nil {
		t.Errorf("after that it is held as %s, unsettled: %v, %v", h.Node().Kind, h.Unsettled(), h.Err())
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
}

// etcd takes few operations at a time (--max-txn-ops), and more than that stand ahead, amended.
func TestAServiceThatTakesFewOperations(t *testing.T) {
	cluster := servers.Etcd(t, servers.Flags("--max-txn-ops=16"))
	s := open(t, connectLink(t, cluster.Addrs()...))
	const many = 40
	var all []driver.Place
	for range many {
		me, _ := join(t, s, entry("few", "W"))
		if err := me.Amend(within(t, 10*time.Second), "R", nil); err != nil {
			t.Fatal(err)
		}
		all = append(all, me)
	}
	reader := entry("few", "R")
	reader.Sight = driver.Sight{Ignore: []string{"R"}}
	me, ahead, err := s.Join(within(t, 10*time.Second), reader)
	if err != nil || len(ahead) > 0 {
		t.Fatalf("behind %d that have become readers: %v, %v", many, ahead, err)
	}
	all = append(all, me)
	var gone sync.WaitGroup
	for _, p := range all {
		gone.Go(func() {
			if err := p.Leave(within(t, 10*time.Second), false); err != nil {
				t.Error(err)
			}
		})
	}
	gone.Wait()
}
