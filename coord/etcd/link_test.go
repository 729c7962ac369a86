package etcd

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// link is a client of its own behind proxies of its own, one for each member. Every request goes through the proxies.
type link struct {
	client  *clientv3.Client
	proxies []*faultproxy.Proxy

	mu      sync.Mutex
	rules   []*rule
	faults  map[int]fault
	last    int
	traffic drivertest.Traffic

	onSend  atomic.Pointer[func(method string, req any)] // sees every request and message sent
	onEvent atomic.Pointer[func()]                       // called before news of a change is delivered
}

type fault struct {
	stall drivertest.Direction
	cut   bool
	delay time.Duration
}

// rule decides the fate of one request that fits it.
type rule struct {
	fits func(method string, req any) bool
	fate drivertest.Fate
	late time.Duration
	met  chan struct{}
}

// connectLink makes a link to a cluster, or to some of its members.
func connectLink(t testing.TB, addrs ...string) *link {
	t.Helper()
	return connectLinkWith(t, clientv3.Config{}, addrs...)
}

func connectLinkWith(t testing.TB, cfg clientv3.Config, addrs ...string) *link {
	t.Helper()
	l := &link{faults: map[int]fault{}}
	var ends []string
	for _, a := range addrs {
		p := faultproxy.Start(t, a)
		l.proxies = append(l.proxies, p)
		ends = append(ends, p.Addr())
	}
	cfg.Endpoints = ends
	cfg.Logger = zap.NewNop()
	cfg.DialOptions = append(cfg.DialOptions, l.dialOptions()...)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	client, err := dial(ctx, cfg)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	l.client = client
	t.Cleanup(func() { client.Close() })
	return l
}

func (l *link) dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(l.unary),
		grpc.WithChainStreamInterceptor(l.stream),
	}
}

func (l *link) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	l.count(method, req)
	if f := l.onSend.Load(); f != nil {
		(*f)(method, req)
	}
	r := l.ruleFor(method, req)
	if r == nil {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	lost := status.Error(codes.Unavailable, "test: the reply is lost")
	switch r.fate {
	case drivertest.LostAfter:
		err := invoke(ctx, method, req, reply, cc, opts...)
		close(r.met)
		if err != nil {
			return err
		}
	case drivertest.AppliedLate:
		time.AfterFunc(r.late, func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			_ = invoke(ctx, method, req, &pb.TxnResponse{}, cc, opts...)
		})
		close(r.met)
	default:
		close(r.met)
	}
	return lost
}

func (l *link) ruleFor(method string, req any) *rule {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, r := range l.rules {
		if r.fits(method, req) {
			l.rules = append(l.rules[:i:i], l.rules[i+1:]...)
			return r
		}
	}
	return nil
}

// fate decides the fate of the next request that fits.
func (l *link) fate(f drivertest.Fate, fits func(method string, req any) bool) *rule {
	r := &rule{fits: fits, fate: f, late: drivertest.Late, met: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules = append(l.rules, r)
	return r
}

// changesNode reports whether a request creates, changes or deletes a node of a line.
func changesNode(_ string, req any) bool {
	txn, ok := req.(*pb.TxnRequest)
	if !ok {
		return false
	}
	for _, op := range txn.Success {
		if inner := op.GetRequestTxn(); inner != nil && changesNode("", inner) {
			return true
		}
		for _, key := range [][]byte{op.GetRequestPut().GetKey(), op.GetRequestDeleteRange().GetKey()} {
			if len(key) > 0 && !ofSession(key) {
				return true
			}
		}
	}
	return false
}

func ofSession(key []byte) bool { return strings.Contains(string(key), "/session/") }

func isWrite(txn *pb.TxnRequest) bool {
	for _, op := range append(txn.Success, txn.Failure...) {
		if op.GetRequestRange() == nil {
			return true
		}
	}
	return false
}

// count leaves out a session's upkeep: its lease, its own key, and the pings of its streams.
func (l *link) count(_ string, req any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch r := req.(type) {
	case *pb.TxnRequest:
		if isWrite(r) {
			l.traffic.Writes++
		} else {
			l.traffic.Reads++
		}
	case *pb.RangeRequest:
		if !ofSession(r.Key) {
			l.traffic.Reads++
		}
	case *pb.WatchRequest:
		if c := r.GetCreateRequest(); c != nil && !ofSession(c.Key) {
			l.traffic.Reads++
		}
	}
}

func (l *link) counted() drivertest.Traffic {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.traffic
	for _, p := range l.proxies {
		t.Sent += p.Bytes(faultproxy.ToServer)
		t.Received += p.Bytes(faultproxy.ToClient)
	}
	return t
}

func (l *link) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &countedStream{s, l, method}, nil
}

type countedStream struct {
	grpc.ClientStream
	link   *link
	method string
}

func (s *countedStream) SendMsg(m any) error {
	s.link.count("", m)
	if f := s.link.onSend.Load(); f != nil {
		(*f)(s.method, m)
	}
	return s.ClientStream.SendMsg(m)
}

func (s *countedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if w, ok := m.(*pb.WatchResponse); ok && err == nil {
		if f := s.link.onEvent.Load(); f != nil && len(w.Events) > 0 {
			(*f)()
		}
		s.link.mu.Lock()
		for _, e := range w.Events {
			if !ofSession(e.Kv.Key) {
				s.link.traffic.Events++
			}
		}
		s.link.mu.Unlock()
	}
	return err
}

// trouble adds a fault, which lasts until end is called.
func (l *link) trouble(f fault) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	id := l.last
	l.faults[id] = f
	for _, p := range l.proxies {
		f.applyTo(p)
		if f.cut {
			p.Cut()
		}
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if _, on := l.faults[id]; !on {
			return
		}
		delete(l.faults, id)
		for _, p := range l.proxies {
			p.Together(func() {
				p.Heal()
				for _, f := range l.faults {
					f.applyTo(p)
				}
			})
		}
	}
}

func (f fault) applyTo(p *faultproxy.Proxy) {
	if f.stall&drivertest.Requests != 0 {
		p.Stall(faultproxy.ToServer)
	}
	if f.stall&drivertest.Replies != 0 {
		p.Stall(faultproxy.ToClient)
	}
	if f.delay > 0 {
		p.Delay(f.delay)
	}
	if f.cut {
		p.Refuse()
	}
}

func (l *link) freeze(d drivertest.Direction) func() { return l.trouble(fault{stall: d}) }
func (l *link) cut() func()                          { return l.trouble(fault{cut: true}) }
func (l *link) delay(d time.Duration) func()         { return l.trouble(fault{delay: d}) }

// service makes a driver on the link.
func (l *link) service(t testing.TB, opts ...Option) *service {
	t.Helper()
	d, err := New(l.client, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.heal()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Errorf("close the driver: %v", err)
		}
	})
	return d.(*service)
}

// heal ends every fault.
func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.faults)
	l.rules = nil
	for _, p := range l.proxies {
		p.Heal()
	}
}

// direct returns a client that bypasses every proxy.
func direct(t testing.TB, c *servers.Cluster) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Addrs(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// within returns a context for something that must not take longer than d.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
