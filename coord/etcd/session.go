package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// session is a lease. Everything that runs for it runs on its life.
type session struct {
	d     *service
	lease clientv3.LeaseID
	ttl   time.Duration // as granted
	began time.Time     // when the lease was asked for

	life     *driverkit.Life
	deadline *driverkit.Deadline
	epoch    epoch
	told     driverkit.Max // the greatest revision that the service has told us
	watches  *watches
	numbers  numbers
	lines    lines
	leaving  departures
	joins    gate
	looks    gate
}

// At most this many requests of a session are under way at once. Ten thousand that came at the same moment would only wait
// for one another at the service, and time out there.
const (
	maxJoins = 32
	maxLooks = 128
)

func (d *service) newSession(lease clientv3.LeaseID, ttl int64, sent time.Time) *session {
	s := &session{
		d:        d,
		lease:    lease,
		ttl:      lasting(ttl),
		began:    sent,
		life:     driverkit.NewLife(clientv3.WithRequireLeader(context.Background())),
		deadline: driverkit.NewDeadline(),
		epoch:    epoch{writing: make(gate, 1)},
		lines:    lines{all: make(map[string]*ourLine)},
		joins:    make(gate, maxJoins),
		looks:    make(gate, maxLooks),
	}
	s.leaving.s = s
	s.watches = d.newWatches(s.life, d.keys.epoch(lease))
	s.renewed(sent, ttl)
	return s
}

// renewed leaves a margin for clocks that run at different rates. etcd itself is never early: it counts from when it has
// processed a renewal, and looks for expired leases every half second.
func (s *session) renewed(sent time.Time, seconds int64) {
	ttl := min(s.ttl, lasting(seconds))
	s.deadline.Renewed(sent, ttl-ttl/50-50*time.Millisecond)
}

// lasting converts the TTL of a lease, which the service counts in seconds.
func lasting(seconds int64) time.Duration {
	return time.Duration(min(seconds, int64(maxTTL/time.Second))) * time.Second
}

func (s *session) Deadline() time.Time { return s.deadline.Time() }

func (s *session) Done() <-chan struct{} { return s.life.Done() }

// end ends the session, for the first reason given.
func (s *session) end(why error) {
	if !s.life.End(why) {
		return
	}
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

func (s *session) Abandon(ctx context.Context) {
	s.life.AwaitErrands(ctx)
	s.end(errAbandoned)
}

// Close revokes the lease, and with it goes everything, even what is still on its way to the service.
func (s *session) Close(ctx context.Context) error {
	s.end(errClosed)
	_ = s.life.Rest(ctx)
	if !errors.Is(s.life.Why(), errClosed) {
		return nil
	}
	return s.d.retry(ctx, "revoke the lease", func(ctx context.Context) error {
		_, err := s.d.leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: int64(s.lease)})
		if err = rpctypes.Error(err); is(err, rpctypes.ErrLeaseNotFound) {
			return nil
		}
		return err
	})
}

// renew keeps the lease alive. It uses a stream of its own and sends one renewal at a time, each with a short deadline. It
// counts from the sending, so a lease that was granted or renewed late is renewed again sooner. The client library's
// KeepAlive counts from the receipt, notices the end up to 2.5 s late, and tries again on the same silent connection.
func (s *session) renew() {
	var r renewal
	defer r.drop()
	interval := s.ttl / 3
	pause, misses := interval-time.Since(s.began), 0
	for driverkit.Sleep(s.life.Context(), pause) == nil {
		sent := time.Now()
		ttl, err := r.once(s, s.patience(misses))
		switch {
		case s.life.Over():
			return
		case err == nil && ttl > 0:
			s.renewed(sent, ttl)
			pause, misses = interval-time.Since(sent), 0
			continue
		case err == nil:
			// "No such lease" may come from a member that lags behind. A write with the lease settles it.
			r.drop()
			err = s.confirm(s.life.Context())
		}
		// A client made by the user may pause for up to two minutes between dials, which is longer than a session lasts.
		s.d.conn.ResetConnectBackoff()
		misses++
		pause = min(time.Duration(misses)*20*time.Millisecond, interval/3)
		s.d.log.Warn("etcd: lease not renewed", "lease", leaseHex(s.lease), "tries", misses,
			"remaining", time.Until(s.Deadline()).Round(time.Millisecond), "err", err)
	}
}

// patience is how long a renewal may take after that many misses. At first that leaves time for several tries before the
// deadline; a service that is slow as a whole gets more time for each.
func (s *session) patience(misses int) time.Duration {
	first := min(shortTry, s.ttl/6)
	return min(first+time.Duration(misses)*first/2, s.ttl/2)
}

// renewal is a stream of renewals, opened when needed. A failed stream is dropped: the next one goes to the next member.
type renewal struct {
	stream pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
}

func (r *renewal) drop() {
	if r.cancel != nil {
		r.cancel()
	}
	r.stream, r.cancel = nil, nil
}

// once renews the lease and returns its TTL in seconds; 0: there is no such lease.
func (r *renewal) once(s *session, patience time.Duration) (ttl int64, err error) {
	var ctx context.Context
	fresh := r.cancel == nil
	if fresh {
		ctx, r.cancel = context.WithCancel(s.life.Context())
	}
	hurry := time.AfterFunc(patience, r.cancel)
	defer hurry.Stop()
	defer func() {
		if err != nil {
			r.drop()
		}
	}()
	if fresh {
		if r.stream, err = s.d.leases.LeaseKeepAlive(ctx, waitForReady); err != nil {
			return 0, fmt.Errorf("no stream: %w", rpctypes.Error(err))
		}
	}
	return r.exchange(s)
}

func (r *renewal) exchange(s *session) (int64, error) {
	if err := r.stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(s.lease)}); err != nil {
		if _, why := r.stream.Recv(); why != nil {
			err = why
		}
		return 0, rpctypes.Error(err)
	}
	said, err := r.stream.Recv()
	if err != nil {
		return 0, rpctypes.Error(err)
	}
	if said.GetID() != int64(s.lease) {
		return 0, errNonsense
	}
	return said.GetTTL(), nil
}
