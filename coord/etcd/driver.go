package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
	"google.golang.org/grpc"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// service is the driver: one etcd cluster, reached through one client.
type service struct {
	conn   *grpc.ClientConn
	kv     clientv3.KV
	leases pb.LeaseClient
	events pb.WatchClient

	keys      layout
	ttl       int64 // in seconds, as asked for
	log       *slog.Logger
	pace      pace
	bundle    bundle
	lineBytes int64        // how many Line keeps
	release   func() error // closes the client if it is ours; nil: it is the user's

	numbered atomic.Bool // see errNumbered
	deaf     sync.Once   // see warnOfDeaf

	life    *driverkit.Life // until Close
	watches *watches        // for callers who stand in no line

	mu       sync.Mutex
	sessions map[*session]struct{}
}

// New makes a driver on a client that remains the caller's: it is not closed with the driver, and must not be closed before
// it. The driver talks to etcd through the client's connection. Set the client's DialKeepAliveTime (to 10 s, say), so that
// a dead server is noticed. To keep the keys below a prefix, use WithRoot, not a namespace around the client's KV.
func New(client *clientv3.Client, opts ...Option) (driver.Driver, error) {
	c, keys, err := configure(opts)
	if err != nil {
		return nil, err
	}
	if len(c.client) > 0 {
		return nil, fmt.Errorf("turnwise: etcd: %w: WithClient is for Connect: pass these options to coord.NewClient", coord.ErrInvalid)
	}
	return newService(client, c, keys)
}

func newService(client *clientv3.Client, c config, keys layout) (*service, error) {
	switch {
	case client == nil:
		return nil, errors.New("turnwise: etcd: New needs a client")
	case client.ActiveConnection() == nil:
		return nil, errors.New("turnwise: etcd: the client has no connection of its own, as an embedded server's has not; " +
			"make one with clientv3.New")
	case reflect.TypeOf(client.KV) == reflect.TypeOf(namespace.NewKV(client.KV, "")):
		return nil, errors.New("turnwise: etcd: a namespace around the client's KV is not seen here; " +
			"use a plain client and WithRoot")
	}
	// The client's own KV, so that wrappers around it neither change keys nor cache reads.
	conn := client.ActiveConnection()
	d := &service{
		conn:      conn,
		kv:        clientv3.NewKV(client),
		leases:    pb.NewLeaseClient(conn),
		events:    pb.NewWatchClient(conn),
		keys:      keys,
		ttl:       c.seconds(),
		log:       c.log,
		lineBytes: driverkit.LineBytes,
		life:      driverkit.NewLife(clientv3.WithRequireLeader(context.Background())),
		sessions:  make(map[*session]struct{}),
	}
	d.watches = d.newWatches(d.life, keys.sessions())
	return d, nil
}

// Strength is that of a cluster that writes to disk before it answers, which is the default (without --unsafe-no-fsync).
func (d *service) Strength() driver.Strength { return strength }

var strength = driver.Strength{
	Order:    driver.FirstCome,
	Death:    driver.ByTTL,
	Restart:  driver.Remembers,
	Failover: driver.Remembers, // of three members or more
	Tokens:   driver.RiseForEver,
	WakeUp:   driver.Told,
}

// RequestTimeout is 2 s.
func (d *service) RequestTimeout() time.Duration { return requestTimeout }

// Open grants a lease and puts the session's epoch key on it.
func (d *service) Open(ctx context.Context) (driver.Session, error) {
	if d.life.Over() {
		return nil, errClosed
	}
	var sent time.Time
	var granted *pb.LeaseGrantResponse
	err := d.retry(ctx, "grant a lease", func(ctx context.Context) (err error) {
		sent = time.Now()
		granted, err = d.leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: d.ttl})
		if err == nil && (granted.GetID() <= 0 || granted.GetTTL() <= 0) {
			err = errNonsense
		}
		return rpctypes.Error(err)
	})
	if err != nil {
		return nil, err // if the lease was granted after all, it has no keys and ends by itself
	}
	s := d.newSession(granted, sent)
	if err := s.moveEpoch(ctx, 0); err != nil {
		s.end(errClosed)
		return nil, err // the lease ends by itself, and takes the key along if it was put after all
	}
	if !d.adopt(s) {
		s.end(errClosed)
		return nil, errClosed
	}
	s.life.Go(s.renew)
	s.life.Go(s.watchOver)
	return s, nil
}

var errClosed = errors.New("closed")

// adopt has Close end this session as well. It returns false if Close has already begun.
func (d *service) adopt(s *session) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life.Over() {
		return false
	}
	d.sessions[s] = struct{}{}
	return true
}

// forget is for a session that has ended.
func (d *service) forget(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sessions, s)
}

func (d *service) Close(ctx context.Context) error {
	first := d.life.End(errClosed)
	d.mu.Lock()
	open := slices.Collect(maps.Keys(d.sessions))
	d.mu.Unlock()

	errs := make([]error, len(open))
	var all sync.WaitGroup
	for i, s := range open {
		all.Go(func() { errs[i] = s.Close(ctx) })
	}
	all.Wait()
	_ = d.life.Rest(ctx)
	if first && d.release != nil {
		if err := d.release(); err != nil && !errors.Is(err, context.Canceled) {
			errs = append(errs, failed("close the client", err))
		}
	}
	return errors.Join(errs...)
}
