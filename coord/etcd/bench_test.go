package etcd

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/turnwise/turnwise/coord/driver"
)

// This is what a look at a whole line of a thousand costs, as a semaphore does it.
func BenchmarkALookAtAThousand(b *testing.B) {
	l := layout{root: defaultRoot}
	answer := &pb.RangeResponse{}
	for i := range int64(1000) {
		answer.Kvs = append(answer.Kvs, &mvccpb.KeyValue{Key: []byte(l.contender("line", "S1of3", 0x7587, i+1)), CreateRevision: i + 1, ModRevision: i + 1})
	}
	answers := []*pb.ResponseOp{{Response: &pb.ResponseOp_ResponseRange{ResponseRange: answer}}}
	b.ReportAllocs()
	for b.Loop() {
		if g := l.see(view{"line", driver.Sight{Nearest: driver.All}}, answers); len(g.nodes) != 1000 {
			b.Fatal(len(g.nodes))
		}
	}
}
