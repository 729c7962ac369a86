package etcd

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// renew keeps the lease alive. It uses a stream of its own and one renewal at a time, each with a short deadline, and
// counts from the sending. The client library's KeepAlive counts from the receipt, notices an end up to 2.5 s late,
// and tries again on the same silent connection.
func (s *session) renew() {
	var r renewal
	defer r.drop()
	interval := s.ttl / 3
	pause, failed := interval, 0
	for sleepExactly(s.life, pause) == nil {
		sent := time.Now()
		ttl, err := r.once(s, s.patience(failed))
		switch {
		case s.life.Err() != nil:
			return
		case err == nil && ttl > 0:
			s.renewed(sent)
			pause, failed = interval, 0
			continue
		case err == nil:
			// "No such lease" may come from a member that has not caught up. A write with the lease settles it.
			r.drop()
			err = s.confirm(s.life)
		}
		// A client that the user made may pause for up to two minutes between dials, more than a session has.
		s.d.conn.ResetConnectBackoff()
		failed++
		pause = min(time.Duration(failed)*20*time.Millisecond, interval/3)
		s.d.log.Warn("etcd: lease not renewed", "lease", leaseHex(s.lease), "tries", failed,
			"left", time.Until(s.Deadline()).Round(time.Millisecond), "err", err)
	}
}

// patience is how long a renewal may take, after so many that failed. At first there is time for several tries before
// the deadline; a service that is slow as a whole gets more of it.
func (s *session) patience(failed int) time.Duration {
	first := min(shortTry, s.ttl/6)
	return min(first+time.Duration(failed)*first/2, s.ttl/2)
}

// sleepExactly is sleep without the jitter.
func sleepExactly(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// renewal is a stream of renewals, opened when it is needed. One that failed is dropped: the next goes to the next
// member.
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

// once renews the lease and returns its TTL in seconds, 0 if there is no such lease.
func (r *renewal) once(s *session, patience time.Duration) (ttl int64, err error) {
	var ctx context.Context
	fresh := r.cancel == nil
	if fresh {
		ctx, r.cancel = context.WithCancel(s.life)
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
	return said.GetTTL(), nil
}
