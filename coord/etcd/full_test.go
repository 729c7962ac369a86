package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/verify/servers"
)

// appliedThoughFull connects so that after arm the next request that puts a node is applied, and answered as by a service
// whose quota has just been used up: it applies what was let in before, and says that there is no space.
func appliedThoughFull(t *testing.T, cluster *servers.Cluster) (l *link, arm func() (met <-chan struct{})) {
	var mu sync.Mutex
	var full chan struct{}
	l = connectLinkWith(t, clientv3.Config{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(ctx, method, req, reply, cc, opts...)
			mu.Lock()
			defer mu.Unlock()
			if full == nil || err != nil || !putsNode(req) {
				return err
			}
			close(full)
			full = nil
			return rpctypes.ErrGRPCNoSpace
		})}}, cluster.Addrs()...)
	return l, func() <-chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		full = make(chan struct{})
		return full
	}
}

func putsNode(req any) bool {
	txn, ok := req.(*pb.TxnRequest)
	return ok && slices.ContainsFunc(txn.Success, func(op *pb.RequestOp) bool {
		put := op.GetRequestPut()
		return put != nil && !ofSession(put.Key)
	})
}

// A downgrade that the service made although it said that there is no space has let readers in.
func TestADowngradeThatAFullServiceMadeIsMade(t *testing.T) {
	l, arm := appliedThoughFull(t, servers.Etcd(t, servers.Shared()))
	c := coord.NewClient(l.service(t))
	defer c.Close()
	other := coord.NewClient(connectLink(t, servers.Etcd(t, servers.Shared()).Addrs()...).service(t))
	defer other.Close()
	h, err := rwlock.New(c, "full downgrade").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	met := arm()
	said := rwlock.New(c, "full downgrade").Downgrade(within(t, 10*time.Second), h)
	<-met
	if said != nil || h.Node().Kind != "R" {
		t.Errorf("the downgrade says %v, and it is held as %s", said, h.Node().Kind)
	}
	reader, err := rwlock.New(other, "full downgrade").RLock(within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if h.Err() == nil && h.Node().Kind != "R" {
		t.Errorf("a reader is in beside a hold of kind %s", h.Node().Kind)
	}
	if err := errors.Join(reader.Release(), h.Release()); err != nil {
		t.Error(err)
	}
}

// A join that the service made although it said that there is no space leaves nothing behind.
func TestAJoinThatAFullServiceMadeLeavesNothing(t *testing.T) {
	l, arm := appliedThoughFull(t, servers.Etcd(t, servers.Shared()))
	s := open(t, l)
	met := arm()
	_, _, err := s.Join(within(t, 10*time.Second), entry("full join", "lock"))
	<-met
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("the join says %v", err)
	}
	nodes, err := s.d.Line(within(t, 10*time.Second), "full join")
	if err != nil || len(nodes) > 0 {
		t.Errorf("after a join that has failed there stand %v, %v", nodes, err)
	}
}

// A real service is filled up by others. What failed has changed nothing, or does not say so.
func TestWhatFailsWhileAServiceFillsUpIsNotThere(t *testing.T) {
	cluster := servers.Etcd(t, servers.Flags("--quota-backend-bytes=33554432"))
	root := direct(t, cluster)
	s := open(t, connectLink(t, cluster.Addrs()...))
	ctx := within(t, 2*time.Minute)
	full := func(line string, err error) []driver.Node {
		if !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Errorf("%s: %v", line, err)
		}
		nodes, err := s.d.Line(ctx, line)
		if err != nil {
			t.Error(err)
		}
		return nodes
	}
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			line := fmt.Sprint("amended/", i)
			me, _, err := s.Join(ctx, entry(line, "W"))
			said := ""
			for n := 0; err == nil; n++ {
				said = fmt.Sprint(n)
				err = me.Amend(ctx, "W", []byte(said))
			}
			nodes := full(line, err)
			if len(nodes) != 1 || errors.Is(err, driver.ErrUnchanged) && string(nodes[0].Data) == said {
				t.Errorf("%s: amended to %s: %v, and there are %v", line, said, err, nodes)
			}
		})
		all.Go(func() {
			line := fmt.Sprint("joined/", i)
			var err error
			for err == nil {
				var me driver.Place
				if me, _, err = s.Join(ctx, entry(line, "W")); err == nil {
					err = me.Leave(ctx, true)
				}
			}
			if nodes := full(line, err); len(nodes) > 0 {
				t.Errorf("%s: %v, and yet there are %v", line, err, nodes)
			}
		})
	}
	junk := strings.Repeat("x", 1<<20)
	for range 4 {
		all.Go(func() {
			for err := error(nil); err == nil; {
				_, err = root.Put(ctx, "junk", junk)
			}
		})
	}
	all.Wait()
}

// The answer to a join is lost, and then there is no space, so the session cannot make sure that the join is not applied
// later. Others do not wait for its node until there is space again, and nothing comes of it then.
func TestALostJoinLetsOthersPassWhileThereIsNoSpace(t *testing.T) {
	cluster := servers.Etcd(t)
	root := direct(t, cluster)
	alarm := func(action pb.AlarmRequest_AlarmAction) {
		do := &pb.AlarmRequest{Action: action, Alarm: pb.AlarmType_NOSPACE, MemberID: 1}
		if _, err := pb.NewMaintenanceClient(root.ActiveConnection()).Alarm(within(t, 10*time.Second), do); err != nil {
			t.Error(err)
		}
	}
	const line = "no space"
	other := open(t, connectLink(t, cluster.Addrs()...))
	var behind driver.Place
	var ahead []driver.Node
	for _, fate := range []string{"applied", "applied later"} {
		var mu sync.Mutex
		var later func()
		lost := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			mu.Lock()
			defer mu.Unlock()
			if later != nil || !joinOf(line)(method, req) {
				return invoke(ctx, method, req, reply, cc, opts...)
			}
			later = func() { _ = invoke(within(t, 10*time.Second), method, req, &pb.TxnResponse{}, cc) }
			if fate == "applied" {
				later()
			}
			behind, ahead = join(t, other, entry(line, "lock"))
			alarm(pb.AlarmRequest_ACTIVATE)
			return status.Error(codes.Unavailable, "test: the reply is lost")
		}
		l := connectLinkWith(t, clientv3.Config{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(lost)}}, cluster.Addrs()...)
		s := open(t, l)
		if _, _, err := s.Join(within(t, 20*time.Second), entry(line, "lock")); !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Errorf("%s: the join says %v", fate, err)
		}
		if _, err := turn(within(t, 20*time.Second), behind, ahead); err != nil {
			t.Errorf("%s: who waits behind it is not let in: %v", fate, err)
		}
		leave(t, behind, true)
		alarm(pb.AlarmRequest_DEACTIVATE)
		later()
		gone := func() bool { return len(stored(t, root, line)) == 0 }
		for end := time.Now().Add(20 * time.Second); !gone() && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		if !gone() {
			t.Errorf("%s: a join that has failed leaves %v", fate, stored(t, root, line))
		}
		me, _ := join(t, s, entry(line, "lock"))
		leave(t, me, true)
	}
}
