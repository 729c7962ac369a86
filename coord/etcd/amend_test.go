package etcd

import (
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/turnwise/turnwise/coord/drivertest"
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
