package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
)

// session is a lease. Whatever runs for it, runs on its life and ends with it.
type session struct {
	d     *service
	lease clientv3.LeaseID
	ttl   time.Duration // as granted
	begun time.Time

	life context.Context // its cause says why the session has ended
	kill context.CancelCauseFunc

	sent    atomic.Int64 // when the last renewal that succeeded was sent, in ns since begun
	numbers numbers
	epoch   epoch
	watches *watches
	leaving departures
	joins   chan struct{} // a place for each join on its way to the service
	looks   chan struct{} // and for each read

	mu    sync.Mutex
	nodes map[string]*standing // by ID: what we know of our own contenders
	ended bool
	crew  *crew
}

// At most so many requests of a session are under way at once. Ten thousand that come at the same moment would only
// wait for one another at the service, where they would time out.
const (
	maxJoins = 32
	maxLooks = 128
)

func newSession(d *service, lease clientv3.LeaseID, ttl int64, sent time.Time) *session {
	s := &session{
		d:     d,
		lease: lease,
		ttl:   time.Duration(ttl) * time.Second,
		begun: sent,
		joins: make(chan struct{}, maxJoins),
		looks: make(chan struct{}, maxLooks),
		nodes: make(map[string]*standing),
		crew:  newCrew(),

		numbers: numbers{taken: make(map[string]taken)},
	}
	s.leaving.s = s
	s.epoch.lock = make(chan struct{}, 1)
	s.life, s.kill = context.WithCancelCause(clientv3.WithRequireLeader(context.Background()))
	s.watches = d.newWatches(s.life, s.background, d.names.epoch(lease))
	return s
}

func (s *session) start() {
	s.background(s.renew)
	s.background(s.watchOver)
}

// background runs f on the session's life, unless that is over.
func (s *session) background(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.crew.do(s.life, f)
	return true
}

// end is the end of the session, for the first reason given.
func (s *session) end(why error) {
	s.mu.Lock()
	first := !s.ended
	s.ended = true
	s.mu.Unlock()
	if !first {
		return
	}
	s.kill(why)
	s.d.forget(s)
	if why != errClosed && why != errAbandoned {
		s.d.log.Warn("etcd: session ended", "lease", leaseHex(s.lease), "why", why)
	}
}

var (
	errAbandoned = errors.New("abandoned")
	errLeaseGone = errors.New("its lease has expired or was revoked")
	errWentBack  = errors.New("the service has lost what it had")
)

// over is the error of whoever meets a session that has ended.
func (s *session) over() error {
	return fmt.Errorf("etcd: %w: %w", driver.ErrSessionEnded, context.Cause(s.life))
}

// bind returns a context that ends with ctx, and with ErrSessionEnded as soon as the session has.
func (s *session) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { cancel(driver.ErrSessionEnded) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// verdict turns the error of a call on a bound context into what the contract wants.
func (s *session) verdict(err error) error {
	if err != nil && s.life.Err() != nil {
		return s.over()
	}
	return err
}

func (s *session) Done() <-chan struct{} { return s.life.Done() }

func (s *session) Deadline() time.Time {
	return s.begun.Add(time.Duration(s.sent.Load()) + s.ttl - s.margin())
}

// margin is what the deadline leaves for clocks that don't run at the same rate. etcd itself is never early: it counts
// from when it has worked on a renewal, and looks for expired leases every half second.
func (s *session) margin() time.Duration { return s.ttl/50 + 50*time.Millisecond }

func (s *session) renewed(sent time.Time) { s.sent.Store(int64(sent.Sub(s.begun))) }

// Close revokes the lease, and with it goes everything, also what is still on its way to the service.
func (s *session) Close(ctx context.Context) error {
	alive := s.life.Err() == nil || errors.Is(context.Cause(s.life), errClosed)
	s.end(errClosed)
	idle(ctx, &s.crew.work)
	if !alive {
		return nil
	}
	return s.revoke(ctx)
}

func (s *session) revoke(ctx context.Context) error {
	return s.d.ask(ctx, "revoke the lease", func(ctx context.Context) error {
		_, err := s.d.leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: int64(s.lease)})
		if err = rpctypes.Error(err); is(err, rpctypes.ErrLeaseNotFound) {
			return nil
		}
		return err
	})
}

func (s *session) Abandon() { s.end(errAbandoned) }

// idle waits until nothing runs in the background any more, or ctx ends.
func idle(ctx context.Context, work *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// standing is what a session knows of a contender of its own.
type standing struct {
	node    driver.Node
	key     string
	created int64

	// changing serializes Amend. modified is the revision that a change has to find, so that one applied late does not
	// undo a later one.
	changing chan struct{}
	modified int64

	// first says that nobody stood in line when it joined: whoever is right behind it knows that, and needs no mark.
	first bool

	// last is what the last look showed, for the next Await. It is replaced as a whole.
	last atomic.Pointer[sighting]
}

// sighting is what an Await has to know of the look before it.
type sighting struct {
	sight   driver.Sight
	nearest string           // the ID of the nearest in sight
	only    bool             // and nobody else in sight was ahead
	amended map[string]int64 // the mod revisions, by ID, of those in sight that had been amended
}

// stand returns what is known of a contender of this session.
func (s *session) stand(n *driver.Node) (*standing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.nodes[n.ID]; own != nil {
		return own, nil
	}
	key, created, ok := parseID(n.ID)
	if !ok {
		return nil, fmt.Errorf("etcd: %q is no node of this driver", n.ID)
	}
	own := &standing{node: *n, key: key, created: created, modified: created, changing: make(chan struct{}, 1)}
	return own, nil
}

// joinedAs keeps what is known of a new contender until it leaves.
func (s *session) joinedAs(own *standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[own.node.ID] = own
}

func (s *session) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nodes, id)
}
