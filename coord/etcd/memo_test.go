package etcd

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/servers"
)

// takesMemo reports whether a request takes a memo away.
func takesMemo(_ string, req any) bool {
	is := func(r *pb.DeleteRangeRequest) bool { return strings.Contains(string(r.GetKey()), "/memo/") }
	switch r := req.(type) {
	case *pb.DeleteRangeRequest:
		return is(r)
	case *pb.TxnRequest:
		return slices.ContainsFunc(r.Success, func(op *pb.RequestOp) bool { return is(op.GetRequestDeleteRange()) })
	}
	return false
}

// A job that notes each step pays one trip for each.
func TestEachMemoTakesOneTrip(t *testing.T) {
	trips := 0
	count := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if r, ok := req.(*pb.TxnRequest); ok && len(r.Success) == 1 && strings.Contains(string(r.Success[0].GetRequestPut().GetKey()), "/memo/") {
			trips++
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	cluster := servers.Etcd(t, servers.Shared())
	d := connectLinkWith(t, clientv3.Config{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(count)}}, cluster.Addrs()...)
	me, _ := join(t, open(t, d), entry("steps", "lock"))
	for _, memo := range []string{"one", "two", "three"} {
		if err := me.Remember(within(t, 20*time.Second), []byte(memo)); err != nil {
			t.Fatal(err)
		}
	}
	if trips > 3 {
		t.Errorf("three memos took %d trips", trips)
	}
	leave(t, me, true)
	if err := d.service(t).Forget(within(t, 20*time.Second), "steps"); err != nil {
		t.Error(err)
	}
}

// A job's record must not be taken away by a request of an operator that got no answer, and came to an end long ago by another
// try.
func TestAForgetThatIsAppliedLateTakesNoLaterMemo(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	operator := connectLink(t, cluster.Addrs()...)
	d := operator.service(t)
	me, _ := join(t, open(t, connectLink(t, cluster.Addrs()...)), entry("forgotten", "lock"))
	remember := func(memo string) {
		t.Helper()
		if err := me.Remember(within(t, 20*time.Second), []byte(memo)); err != nil {
			t.Fatal(err)
		}
	}
	remember("before")
	late := operator.fate(drivertest.AppliedLate, takesMemo)
	if err := d.Forget(within(t, 20*time.Second), "forgotten"); err != nil {
		t.Fatal(err)
	}
	<-late.met
	if memo, err := d.Memo(within(t, 20*time.Second), "forgotten"); err != nil || len(memo) > 0 {
		t.Fatalf("the memo is %q (error %v) when it was forgotten", memo, err)
	}
	remember("after")
	time.Sleep(2 * drivertest.Late)
	if memo, err := d.Memo(within(t, 20*time.Second), "forgotten"); err != nil || string(memo) != "after" {
		t.Errorf("the memo is %q (error %v), want \"after\"", memo, err)
	}
	leave(t, me, true)
	if err := d.Forget(within(t, 20*time.Second), "forgotten"); err != nil {
		t.Error(err)
	}
}
