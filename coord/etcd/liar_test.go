package etcd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/servers"
)

// liar sits between a client and the service, and spoils the answers: fields are left out or have other values.
type liar struct {
	mu     sync.Mutex
	random *rand.Rand // nil: it tells the truth
	often  int        // how many of a hundred answers it spoils
}

func (l *liar) lie(seed uint64, often int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.random, l.often = rand.New(rand.NewPCG(seed, seed)), often
}

func (l *liar) tellTheTruth() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.random = nil
}

func (l *liar) spoil(reply any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.random == nil || l.random.IntN(100) >= l.often {
		return
	}
	for range 1 + l.random.IntN(3) {
		l.change(reflect.ValueOf(reply).Elem())
	}
}

// change picks a field, or a field of a field, and drops or changes it.
func (l *liar) change(m reflect.Value) {
	var fields []reflect.Value
	for i := range m.NumField() {
		if m.Type().Field(i).IsExported() {
			fields = append(fields, m.Field(i))
		}
	}
	if len(fields) == 0 {
		return
	}
	f := fields[l.random.IntN(len(fields))]
	inside := f
	for inside.Kind() == reflect.Slice && inside.Len() > 0 && inside.Type().Elem().Kind() != reflect.Uint8 {
		inside = inside.Index(l.random.IntN(inside.Len()))
	}
	for (inside.Kind() == reflect.Pointer || inside.Kind() == reflect.Interface) && !inside.IsNil() {
		inside = inside.Elem()
	}
	if inside.Kind() == reflect.Struct && l.random.IntN(3) > 0 {
		l.change(inside)
		return
	}
	switch {
	case f.Kind() == reflect.Int64 && l.random.IntN(2) == 0:
		f.SetInt([]int64{-1, 1, f.Int() + 1, f.Int() - 1, 1 << 62, -1 << 63}[l.random.IntN(6)])
	case f.Kind() == reflect.Bool:
		f.SetBool(!f.Bool())
	case f.Kind() == reflect.Slice && f.Len() > 1 && l.random.IntN(2) == 0:
		f.Set(f.Slice(0, f.Len()-1))
	default:
		f.SetZero()
	}
}

// useAll calls everything that a driver can do, and gives each call a time limit. The results do not matter.
func useAll(t *testing.T, d driver.Driver, line string, each time.Duration) {
	short := func() context.Context { return within(t, each) }
	_, _ = d.Line(short(), line)
	n, _ := drivertest.FirstNode(short(), d, line, nil)
	_, _ = drivertest.FirstNode(short(), d, line, &n)
	_, _ = d.Lines(short(), "")
	s, err := d.Open(short())
	if err != nil {
		return
	}
	all := entry(line, "S1of3")
	all.Sight = driver.Sight{Nearest: driver.All}
	reader := entry(line, "R")
	reader.Sight = driver.Sight{Ignore: []string{"R"}}
	var work sync.WaitGroup
	for _, e := range []driver.Entry{entry(line, "W"), all, reader, try(entry(line, "lock")), entry(line, "lock")} {
		me, ahead, err := s.Join(short(), e)
		if err != nil {
			continue
		}
		work.Go(func() {
			if len(ahead) > 0 {
				_, _ = me.Await(short(), ahead)
			}
			_ = me.Watch(short())
			_ = me.Amend(short(), e.Kind, []byte("x"))
			_ = d.Remove(short(), me.Node())
			_ = me.Leave(short(), true)
		})
	}
	work.Wait()
	_ = s.Close(short())
}

// aLiar makes a driver behind a liar.
func aLiar(t testing.TB, cluster *servers.Cluster) (*liar, *service) {
	l := new(liar)
	return l, connectLinkWith(t, clientv3.Config{DialOptions: spoiling(l.spoil)}, cluster.Addrs()...).service(t, WithTTL(2*time.Second))
}

func tellLies(t *testing.T, l *liar, d *service, seed uint64, often int) {
	line := fmt.Sprint("lies ", seed)
	l.lie(seed, often)
	useAll(t, d, line, 150*time.Millisecond)
	l.tellTheTruth()
	s, err := d.Open(within(t, 10*time.Second))
	if err != nil {
		t.Fatalf("seed %d: with the truth again: %v", seed, err)
	}
	me, _ := join(t, s, entry("truth", "lock"))
	leave(t, me, true)
	if err := s.Close(within(t, 10*time.Second)); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
}

// The service, or somebody in between, answers nonsense: nothing panics, nothing hangs, and once the answers are true again
// all is well.
func TestNonsenseHurtsNobody(t *testing.T) {
	l, d := aLiar(t, servers.Etcd(t, servers.Shared()))
	seeds := 12
	if testing.Short() {
		seeds = 3
	}
	for seed := range uint64(seeds) {
		tellLies(t, l, d, seed, []int{10, 50, 100}[seed%3])
	}
}

func FuzzNonsense(f *testing.F) {
	l, d := aLiar(f, servers.Etcd(f, servers.Shared()))
	f.Add(uint64(1), uint8(50))
	f.Fuzz(func(t *testing.T, seed uint64, often uint8) { tellLies(t, l, d, seed, int(often)%101) })
}

// The service grants a lease that lasts no time at all, or for ages.
func TestALeaseOfNoTimeIsNotRenewedInAStorm(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	for _, ttl := range []int64{0, -1, 1 << 40} {
		var renewals atomic.Int64
		spoil := func(reply any) {
			switch r := reply.(type) {
			case *pb.LeaseGrantResponse:
				r.TTL = ttl
			case *pb.LeaseKeepAliveResponse:
				renewals.Add(1)
				r.TTL = ttl
			}
		}
		l := connectLinkWith(t, clientv3.Config{DialOptions: spoiling(spoil)}, cluster.Addrs()...)
		s, err := l.service(t).Open(within(t, time.Second))
		if ttl <= 0 {
			if err == nil {
				t.Errorf("a lease of %d s is taken for a session", ttl)
			}
		} else if err != nil || time.Until(s.Deadline()) > maxTTL {
			t.Errorf("a lease of %d s: %v", ttl, err)
		}
		time.Sleep(500 * time.Millisecond)
		if n := renewals.Load(); n > 5 {
			t.Errorf("with a lease of %d s there were %d renewals in half a second", ttl, n)
		}
	}
}

// The answers to renewals say that there is no such lease, although it is alive.
func TestADeniedLeaseIsAskedForAtLeisure(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	var asked atomic.Int64
	spoil := func(reply any) {
		if r, ok := reply.(*pb.LeaseKeepAliveResponse); ok {
			asked.Add(1)
			r.TTL = 0
		}
	}
	l := connectLinkWith(t, clientv3.Config{DialOptions: spoiling(spoil)}, cluster.Addrs()...)
	s := open(t, l, WithTTL(2*time.Second))
	time.Sleep(2500 * time.Millisecond)
	if n := asked.Load(); n < 2 || n > 40 {
		t.Errorf("it asked %d times", n)
	}
	if !time.Now().After(s.Deadline()) {
		t.Error("it believes in a lease that is denied")
	}
}

// One member keeps saying that there is no such lease. The next renewal goes to another one.
func TestWhoeverIsDeniedALeaseAsksElsewhere(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	var streams atomic.Int64
	behind := grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := open(ctx, desc, cc, method, opts...)
		if !strings.HasSuffix(method, "/LeaseKeepAlive") || streams.Add(1) > 1 {
			return s, err
		}
		return &spoiledStream{s, func(reply any) {
			if r, ok := reply.(*pb.LeaseKeepAliveResponse); ok {
				r.TTL = 0
			}
		}}, err
	})
	s := open(t, connectLinkWith(t, clientv3.Config{DialOptions: []grpc.DialOption{behind}}, cluster.Addrs()...), WithTTL(3*time.Second))
	opened := s.Deadline()
	for limit := time.Now().Add(20 * time.Second); !s.Deadline().After(opened); time.Sleep(10 * time.Millisecond) {
		if s.life.Over() || time.Now().After(limit) {
			t.Fatalf("after %d streams the lease is not renewed: %v", streams.Load(), s.life.Why())
		}
	}
}

func spoiling(spoil func(reply any)) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(ctx, method, req, reply, cc, opts...)
			if err == nil {
				spoil(reply)
			}
			return err
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := open(ctx, desc, cc, method, opts...)
			return &spoiledStream{s, spoil}, err
		}),
	}
}

type spoiledStream struct {
	grpc.ClientStream
	spoil func(any)
}

func (s *spoiledStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil { // otherwise nothing is in it
		s.spoil(m)
	}
	return err
}
