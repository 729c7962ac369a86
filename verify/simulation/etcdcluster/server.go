package etcdcluster

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
)

// Network decides what arrives when. It lets things arrive in one goroutine at a time.
type Network interface {
	// Ask carries a request to a member, and returns the answer. It may call arrive more than once; the first answer counts.
	// The error is what the client sees.
	Ask(ctx context.Context, link string, r proto.Message, arrive func(to Call, answer func(proto.Message, error))) (proto.Message, error)

	// Open begins a stream, which the network may break.
	Open(link, method string, breaks func(error)) Course
}

// Call is where a request arrives.
type Call struct {
	Member int
	Refuse error // nil: nobody refuses it
	Full   bool  // what it puts uses up the quota: it is applied, and answered with ErrNoSpace
}

// Course carries the messages of a stream, in order in each direction.
type Course interface {
	Up(r proto.Message, arrive func(Call))
	Down(r proto.Message, arrive func())
	Close()
}

// Server is a Cluster behind etcd's gRPC services.
type Server struct {
	cluster *Cluster
	network Network
	grpc    *grpc.Server
}

func NewServer(c *Cluster, n Network) *Server {
	s := &Server{cluster: c, network: n}
	// None of the handlers of single requests is called: see unary.
	s.grpc = grpc.NewServer(grpc.UnaryInterceptor(s.unary), grpc.MaxRecvMsgSize(2<<20))
	pb.RegisterKVServer(s.grpc, &pb.UnimplementedKVServer{})
	pb.RegisterLeaseServer(s.grpc, &renewals{Server: s})
	pb.RegisterWatchServer(s.grpc, &watches{Server: s})
	pb.RegisterAuthServer(s.grpc, &pb.UnimplementedAuthServer{})
	pb.RegisterClusterServer(s.grpc, &pb.UnimplementedClusterServer{})
	pb.RegisterMaintenanceServer(s.grpc, &pb.UnimplementedMaintenanceServer{})
	return s
}

// Stop breaks all connections.
func (s *Server) Stop() { s.grpc.Stop() }

// Dialer returns a dialer of connections within the process, all of which belong to one link.
func (s *Server) Dialer(link string) func(context.Context, string) (net.Conn, error) {
	l := bufconn.Listen(32 << 10)
	go s.grpc.Serve(listener{l, link})
	return func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }
}

// listener tells of each connection which link it belongs to.
type listener struct {
	*bufconn.Listener
	link string
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return conn{c, l.link}, nil
}

type conn struct {
	net.Conn
	link string
}

func (c conn) RemoteAddr() net.Addr { return linkAddr(c.link) }

type linkAddr string

func (linkAddr) Network() string  { return "simulated" }
func (a linkAddr) String() string { return string(a) }

func linkOf(ctx context.Context) string {
	p, _ := peer.FromContext(ctx)
	return p.Addr.String()
}

func needsLeader(ctx context.Context) bool {
	md, _ := metadata.FromIncomingContext(ctx)
	wants := md[rpctypes.MetadataRequireLeaderKey]
	return len(wants) > 0 && wants[0] == rpctypes.MetadataHasLeader
}

func (s *Server) unary(ctx context.Context, r any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	request, needs := r.(proto.Message), needsLeader(ctx)
	return s.network.Ask(ctx, linkOf(ctx), request, func(to Call, answer func(proto.Message, error)) {
		if to.Refuse != nil {
			answer(nil, to.Refuse)
			return
		}
		s.cluster.Ask(to.Member, request, needs, func(said proto.Message, err error) {
			if to.Full && err == nil {
				said, err = nil, Full
			}
			answer(said, err)
		})
	})
}

// side is the server's side of a stream.
type side struct {
	course Course
	ended  chan error

	mu   sync.Mutex
	over bool
}

func (s *Server) open(link, method string) *side {
	d := &side{ended: make(chan error, 1)}
	d.course = s.network.Open(link, method, d.end)
	return d
}

func (d *side) end(err error) {
	select {
	case d.ended <- err:
	default:
	}
}

// send puts a message on its way to the client.
func (d *side) send(r proto.Message, to func() error) {
	d.course.Down(r, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !d.over {
			_ = to() // if the client has gone, that is noticed elsewhere
		}
	})
}

// wait returns when the stream has ended.
func (d *side) wait(ctx context.Context) error {
	var err error
	select {
	case err = <-d.ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	d.mu.Lock()
	d.over = true
	d.mu.Unlock()
	d.course.Close()
	return err
}

// receive works on what a client sends until it stops.
func receive[T any](d *side, next func() (T, error), each func(T)) {
	for {
		r, err := next()
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			d.end(err)
			return
		}
		each(r)
	}
}

// watches is the service of watches.
type watches struct {
	pb.UnimplementedWatchServer
	*Server
}

// Watch serves a stream of watches. It belongs to the member that its first message arrives at.
func (s *watches) Watch(client pb.Watch_WatchServer) error {
	ctx := client.Context()
	d, needs := s.open(linkOf(ctx), "watch"), needsLeader(ctx)
	var mu sync.Mutex // for the next two; the cluster's is locked after it
	var at *Stream
	gone := false
	go receive(d, client.Recv, func(r *pb.WatchRequest) {
		d.course.Up(r, func(to Call) {
			mu.Lock()
			defer mu.Unlock()
			if at == nil && !gone {
				at = s.cluster.Watch(to.Member, needs, func(said *pb.WatchResponse) {
					d.send(said, func() error { return client.Send(said) })
				}, d.end)
			}
			if at != nil {
				at.Hear(r, to.Refuse)
			}
		})
	})
	err := d.wait(ctx)
	mu.Lock()
	defer mu.Unlock()
	if gone = true; at != nil {
		at.Close()
	}
	return err
}

// renewals is the service of leases.
type renewals struct {
	pb.UnimplementedLeaseServer
	*Server
}

// LeaseKeepAlive serves a stream of renewals. It belongs to the member that its first message arrives at.
func (s *renewals) LeaseKeepAlive(client pb.Lease_LeaseKeepAliveServer) error {
	ctx := client.Context()
	d, needs := s.open(linkOf(ctx), "renew"), needsLeader(ctx)
	var at *Call
	go receive(d, client.Recv, func(r *pb.LeaseKeepAliveRequest) {
		d.course.Up(r, func(to Call) {
			d.mu.Lock()
			if at == nil {
				at = &to
			}
			d.mu.Unlock()
			if to.Refuse != nil {
				d.end(to.Refuse)
				return
			}
			s.cluster.Renew(at.Member, r.ID, needs, func(said *pb.LeaseKeepAliveResponse, err error) {
				if err != nil {
					d.end(err)
					return
				}
				d.send(said, func() error { return client.Send(said) })
			})
		})
	})
	return d.wait(ctx)
}
