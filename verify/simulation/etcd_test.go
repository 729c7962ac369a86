package simulation

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	etcddriver "github.com/turnwise/turnwise/coord/etcd"
	"github.com/turnwise/turnwise/verify/simulation/etcdcluster"
)

// slow is a network that carries everything at once, except the answers to some requests.
type slow struct {
	late func(proto.Message) time.Duration
	sent func(proto.Message)
}

func (n slow) Ask(ctx context.Context, _ string, r proto.Message, arrive func(etcdcluster.Call, func(proto.Message, error))) (
	answer proto.Message, err error) {
	n.sent(r)
	arrive(etcdcluster.Call{}, func(said proto.Message, why error) { answer, err = said, why })
	time.Sleep(n.late(r))
	return answer, err
}

func (n slow) Open(string, string, func(error)) etcdcluster.Course { return n }

func (n slow) Up(r proto.Message, arrive func(etcdcluster.Call)) {
	n.sent(r)
	arrive(etcdcluster.Call{})
}

func (slow) Down(_ proto.Message, arrive func()) { arrive() }
func (slow) Close()                              {}

// A lease counts from when it was asked for, so one that was granted late has little time left. A driver that waited for a
// third of the TTL before the first renewal had a session that was good for nothing until then.
func TestALeaseThatWasGrantedLateIsRenewedTheSooner(t *testing.T) {
	const ttl, late = 3 * time.Second, 500 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var renewed []time.Duration
		f := newEtcd(nil, ttl, etcdcluster.Config{Rate: 1, Members: 1}, etcddriver.Isolated)
		f.server.Stop()
		f.server = etcdcluster.NewServer(f.cluster, slow{
			late: func(r proto.Message) time.Duration {
				if _, ok := r.(*pb.LeaseGrantRequest); ok {
					return late
				}
				return 0
			},
			sent: func(r proto.Message) {
				if _, ok := r.(*pb.LeaseKeepAliveRequest); ok {
					renewed = append(renewed, time.Since(began))
				}
			},
		})
		d := f.NewDriver("c0")
		if _, err := d.Open(context.Background()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl)
		d.Close(context.Background())
		f.Close()
		if len(renewed) == 0 || renewed[0] != ttl/3 {
			t.Fatalf("asked for, and then renewed after %v: want it after %v", renewed, ttl/3)
		}
	})
}
