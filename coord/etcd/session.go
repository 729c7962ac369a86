package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver/deadlines"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// session is a lease. Everything that runs for it runs on its life.
type session struct {
	d     *service
	lease clientv3.LeaseID
	ttl   time.Duration // as granted
	began time.Time     // when the lease was asked for

	life     *driverkit.Life
	vouched  vouched
	deadline *driverkit.Deadline // as far as is vouched for
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

func (d *service) newSession(granted *pb.LeaseGrantResponse, sent time.Time) *session {
	lease := clientv3.LeaseID(granted.GetID())
	s := &session{
		d:        d,
		lease:    lease,
		ttl:      lasting(granted.GetTTL()),
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
	s.granted(granted.GetHeader().GetRaftTerm())
	return s
}

// vouched is until when the service surely keeps the lease, by what it has answered. Times count from when the lease was
// asked for.
type vouched struct {
	mu    sync.Mutex
	lease deadlines.Lease
	read  time.Time // when the latest read or write that was answered had been sent
}

func (s *session) granted(term uint64) {
	s.vouched.mu.Lock()
	defer s.vouched.mu.Unlock()
	s.vouched.read = s.began
	s.deadline.Renewed(s.began, s.vouched.lease.Granted(deadlines.Answer{Term: term}, s.ttl))
}

// renewed records the answer to a renewal.
func (s *session) renewed(sent time.Time, said *pb.LeaseKeepAliveResponse) {
	s.vouched.mu.Lock()
	defer s.vouched.mu.Unlock()
	s.deadline.Renewed(s.began, s.vouched.lease.Renewed(s.answer(sent, said.GetHeader()), lasting(said.GetTTL())))
}

// confirmed records the answer to a write or a linearizable read, which a majority has confirmed. told is the greatest
// revision that we knew of when it was sent.
func (s *session) confirmed(sent time.Time, header *pb.ResponseHeader, told int64) error {
	if err := s.goesOn(header.GetRevision(), told); err != nil || header.GetRaftTerm() == 0 {
		return err
	}
	s.vouched.mu.Lock()
	defer s.vouched.mu.Unlock()
	if sent.After(s.vouched.read) {
		s.vouched.read = sent
	}
	s.deadline.Renewed(s.began, s.vouched.lease.Read(s.answer(sent, header)))
	return nil
}

func (s *session) answer(sent time.Time, header *pb.ResponseHeader) deadlines.Answer {
	return deadlines.Answer{Sent: sent.Sub(s.began), Term: header.GetRaftTerm()}
}

// outdated reports whether somebody else may lead by now than the one that renewed the lease.
func (s *session) outdated() bool {
	s.vouched.mu.Lock()
	defer s.vouched.mu.Unlock()
	return s.vouched.lease.Outdated()
}

// lastConfirmed returns when the latest read or write that was answered had been sent.
func (s *session) lastConfirmed() time.Time {
	s.vouched.mu.Lock()
	defer s.vouched.mu.Unlock()
	return s.vouched.read
}

// lasting converts the TTL of a lease, which the service counts in seconds.
func lasting(seconds int64) time.Duration {
	return time.Duration(min(seconds, int64(maxTTL/time.Second))) * time.Second
}

func (s *session) Deadline() time.Time { return s.deadline.Time() }

func (s *session) Done() <-chan struct{} { return s.life.Done() }

// Why says why the session is over.
func (s *session) Why() error { return s.life.Why() }

// end ends the session, for the first reason given.
func (s *session) end(why error) {
	if !s.life.End(why) {
		return
	}
	s.d.forget(s)
	if why != errClosed && why != errAbandoned {
		s.d.log.Warn("etcd: session ended", "lease", leaseHex(s.lease), "err", why)
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
		err := s.extend(&r, s.patience(misses))
		if s.life.Over() {
			return
		}
		if err == nil {
			pause, misses = interval-time.Since(sent), 0
			continue
		}
		r.drop()
		// A client made by the user may pause for up to two minutes between dials, which is longer than a session lasts.
		s.d.conn.ResetConnectBackoff()
		pause = min(time.Duration(misses)*20*time.Millisecond, interval/3)
		misses++
		s.d.log.Warn("etcd: lease not renewed", "lease", leaseHex(s.lease), "tries", misses,
			"remaining", max(time.Until(s.Deadline()), 0).Round(time.Millisecond).String(), "err", err)
	}
}

var (
	errNoLease  = errors.New("a member knows of no such lease, but it is alive")
	errOutdated = errors.New("somebody else may lead by now than the one that renewed it")
)

// busyFor is the part of the TTL during which a read or a write of the session still counts as a read along with a renewal.
const busyFor = 30

// extend renews the lease, and unless the session is busy reads its key at the same time: a majority confirms that.
func (s *session) extend(r *renewal, patience time.Duration) error {
	read := make(chan error, 1)
	if time.Since(s.lastConfirmed()) < s.ttl/busyFor {
		read <- nil
	} else if !s.life.Go(func() { read <- s.readAlong(patience) }) {
		return s.life.Why()
	}
	sent := time.Now()
	said, err := r.once(s, patience)
	if err == nil && said.GetTTL() <= 0 {
		// It may come from a member that lags behind. A write with the lease settles it.
		if err = s.confirm(s.life.Context()); err == nil {
			err = errNoLease
		}
	}
	if err == nil && s.deadline.Passed() {
		err = s.stillOurs(patience)
	}
	if err == nil {
		s.renewed(sent, said)
	}
	if err := cmp.Or(err, <-read); err != nil {
		return err
	}
	if s.outdated() {
		return errOutdated
	}
	return nil
}

// readAlong reads the session's key once.
func (s *session) readAlong(patience time.Duration) error {
	_, err := s.readKey(patience)
	return err
}

func (s *session) readKey(patience time.Duration) (found bool, err error) {
	ctx, cancel := context.WithCancel(s.life.Context())
	defer cancel()
	defer time.AfterFunc(patience, cancel).Stop()
	err = s.d.once(ctx, func(ctx context.Context) error {
		there, _, err := s.readEpoch(ctx)
		found = there
		return err
	})
	if err != nil && ctx.Err() != nil {
		err = notHeard(patience)
	}
	return found, err
}

// stillOurs is asked after a renewal that came late, when the lease may have expired meanwhile. Then anybody may have been granted
// another of that number, and what would be put on it would stay for as long as he likes. The session's key tells them apart: it went
// with ours.
func (s *session) stillOurs(patience time.Duration) error {
	found, err := s.readKey(patience)
	if err == nil && !found {
		s.end(errLeaseGone)
		err = s.life.Why()
	}
	return err
}

// notHeard is the error for an answer that we no longer wait for. That we have hung up is no news.
func notHeard(patience time.Duration) error {
	return fmt.Errorf("no answer within %v", patience.Round(time.Millisecond))
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
	ctx    context.Context // the stream's
	cancel context.CancelCauseFunc
}

func (r *renewal) drop() {
	if r.cancel != nil {
		r.cancel(nil)
	}
	r.stream, r.ctx, r.cancel = nil, nil, nil
}

// once renews the lease. A TTL of 0 in the answer says that there is no such lease.
func (r *renewal) once(s *session, patience time.Duration) (said *pb.LeaseKeepAliveResponse, err error) {
	fresh := r.cancel == nil
	if fresh {
		r.ctx, r.cancel = context.WithCancelCause(s.life.Context())
	}
	ctx, giveUp := r.ctx, r.cancel
	defer time.AfterFunc(patience, func() { giveUp(notHeard(patience)) }).Stop()
	if fresh {
		if r.stream, err = s.d.leases.LeaseKeepAlive(ctx, waitForReady); err != nil {
			err = fmt.Errorf("no stream: %w", rpctypes.Error(err))
		}
	}
	if err == nil {
		said, err = r.exchange(s)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return said, err
}

func (r *renewal) exchange(s *session) (*pb.LeaseKeepAliveResponse, error) {
	if err := r.stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(s.lease)}); err != nil {
		if _, why := r.stream.Recv(); why != nil {
			err = why
		}
		return nil, rpctypes.Error(err)
	}
	said, err := r.stream.Recv()
	if err != nil {
		return nil, rpctypes.Error(err)
	}
	if said.GetID() != int64(s.lease) {
		return nil, errNonsense
	}
	return said, nil
}
