package etcd

import (
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/servers"
)

// A change that is applied late, after a later one, must not undo that.
func TestLateAmendmentUndoesNothing(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l)
	me, _ := join(t, s, entry("late amendment", "lead"))
	l.fate(drivertest.AppliedLate, func(m string, req any) bool {
		txn, ok := req.(*pb.TxnRequest)
		return ok && len(txn.Failure) == 1 && changesNode(m, req)
	})
	me.Data = []byte("first")
	me, err := s.Amend(within(t, 10*time.Second), me)
	if err != nil {
		t.Fatal(err)
	}
	me.Data = []byte("second")
	if me, err = s.Amend(within(t, 10*time.Second), me); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(2 * drivertest.Late); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		nodes, err := s.d.Line(within(t, 10*time.Second), "late amendment")
		if err != nil || len(nodes) != 1 || string(nodes[0].Data) != "second" || nodes[0].Token != me.Token {
			t.Fatalf("the line shows %v, %v", nodes, err)
		}
	}
	leave(t, s, me, true)
}
