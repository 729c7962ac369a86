package etcd

import (
	"context"
	"errors"
	"math"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// epoch is the session's epoch key, which every join compares. When a join's outcome is open, the key is written again:
// a join that is still on its way then fails, and what a read shows afterwards is final. (A read alone settles nothing: we
// have seen a transaction applied a second after one.)
//
// The key also shows whether the lease is alive, since it goes with the lease, and whether the service has gone back: it was
// written last when we wrote it last, or later.
type epoch struct {
	rev     driverkit.Max // the key's mod revision as far as we know
	writing gate          // lets one through: to write the key, or to check whether it is there
	seen    int64         // the last revision at which the lease was known to be alive; guarded by writing
}

// moveEpoch returns when nothing that compares with the epoch old can still be applied.
func (s *session) moveEpoch(ctx context.Context, old int64) error {
	if err := s.epoch.writing.enter(ctx); err != nil {
		return failed("move the epoch", err)
	}
	defer s.epoch.writing.exit()
	if s.epoch.rev.Load() > old {
		return nil // somebody else has moved it since
	}
	return s.putEpoch(ctx)
}

// confirm settles whether the lease is alive, by a write that needs a live lease. If it is not, the session ends.
func (s *session) confirm(ctx context.Context) error {
	if err := s.epoch.writing.enter(ctx); err != nil {
		return failed("confirm the lease", err)
	}
	defer s.epoch.writing.exit()
	return s.putEpoch(ctx)
}

func (s *session) putEpoch(ctx context.Context) error {
	return s.d.retry(ctx, "put the session's key", func(ctx context.Context) error {
		told, wrote, sent := s.told.Load(), s.epoch.rev.Load(), time.Now()
		done, err := s.writeEpoch(ctx, wrote > 0 && s.deadline.Passed())
		if err == nil && done == nil {
			s.end(errLeaseGone)
			return s.life.Why()
		}
		if err == nil {
			s.epoch.rev.Saw(done.Header.Revision)
			s.epoch.seen = max(s.epoch.seen, done.Header.Revision)
			err = s.confirmed(sent, done.Header, told)
		}
		if err == nil && done.PrevKv != nil {
			err = s.goesOn(done.PrevKv.ModRevision, wrote)
		}
		s.noticeLoss(err)
		return err
	})
}

// writeEpoch returns nil if the key is not there, and late: by then the lease may have expired, and be somebody else's of the same
// number. Before that, whoever has removed the key has removed no more.
func (s *session) writeEpoch(ctx context.Context, late bool) (*clientv3.PutResponse, error) {
	key := s.d.keys.epoch(s.lease)
	if !late {
		return s.d.put(ctx, key, "", clientv3.WithLease(s.lease), clientv3.WithPrevKV())
	}
	there := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), ">", 0)}
	answer, err := s.d.txn(ctx, there, []clientv3.Op{clientv3.OpPut(key, "", clientv3.WithLease(s.lease), clientv3.WithPrevKV())}, nil)
	if err != nil || !answer.Succeeded {
		return nil, err
	}
	done := answer.Responses[0].GetResponsePut()
	if done == nil {
		return nil, errNonsense
	}
	return &clientv3.PutResponse{Header: answer.Header, PrevKv: done.PrevKv}, nil
}

// readEpoch reads whether the session's key is there, and at which revision that was.
func (s *session) readEpoch(ctx context.Context) (found bool, rev int64, err error) {
	told, wrote, sent := s.told.Load(), s.epoch.rev.Load(), time.Now()
	got, err := s.d.get(ctx, s.d.keys.epoch(s.lease), clientv3.WithKeysOnly())
	if err == nil {
		err = s.confirmed(sent, got.Header, told)
	}
	if err != nil || len(got.Kvs) == 0 {
		return false, 0, err
	}
	return true, got.Header.Revision, s.goesOn(got.Kvs[0].ModRevision, wrote)
}

// noticeLoss ends the session if the error of a write says that there is no such lease.
func (s *session) noticeLoss(err error) {
	if is(err, rpctypes.ErrLeaseNotFound) {
		s.end(errLeaseGone)
	}
}

// check returns nil if the lease was alive at revision since, as far as the service can tell, and ends the session if it is
// no longer alive.
func (s *session) check(ctx context.Context, since int64) error {
	if err := s.epoch.writing.enter(ctx); err != nil {
		return failed("look for the lease", err)
	}
	defer s.epoch.writing.exit()
	if s.epoch.seen >= since {
		return nil
	}
	found := false
	err := s.d.retry(ctx, "look for the session's key", func(ctx context.Context) (err error) {
		var rev int64
		if found, rev, err = s.readEpoch(ctx); err == nil && found {
			s.epoch.seen = rev
		}
		return err
	})
	if err != nil || found {
		return err
	}
	return s.putEpoch(ctx) // the lease is gone, or somebody has removed the key
}

// txn also checks that the service has not gone back, and what the answer says of the lease.
func (s *session) txn(ctx context.Context, ifs []clientv3.Cmp, then, instead []clientv3.Op) (*clientv3.TxnResponse, error) {
	told, sent := s.told.Load(), time.Now()
	answer, err := s.d.txn(ctx, ifs, then, instead)
	if err == nil && !(len(then) > 0 && then[0].IsSerializable()) { // a single member that answers by itself may lag behind
		err = s.confirmed(sent, answer.Header, told)
	}
	return answer, err
}

// goesOn ends the session if the service is now at an earlier revision than one it had told us: it has lost its data, or
// was given older data. It has forgotten who has held or left since then, and what it shows may be long gone.
func (s *session) goesOn(now, told int64) error {
	s.told.Saw(now)
	if now >= told {
		return nil
	}
	s.end(errWentBack)
	return s.life.Why()
}

// removed returns the error for a node that was not there at revision rev: it was removed, or the session has ended.
func (s *session) removed(ctx context.Context, rev int64) error {
	if err := s.check(ctx, rev); err != nil {
		return err
	}
	if err := s.life.Why(); err != nil {
		return err
	}
	return driver.ErrRemoved
}

// removed also frees what the place used. Nothing is left for Leave to do then.
func (p *place) removed(ctx context.Context, rev int64) error {
	err := p.session.removed(ctx, rev)
	if errors.Is(err, driver.ErrRemoved) {
		p.wasRemoved.Store(true)
		p.free.Do(p.stoodDown)
	}
	return err
}

// watchOver listens for the lease being taken away unexpectedly: by an operator, or by a leader that was frozen and does
// not know of the renewals since. From time to time it also sweeps.
func (s *session) watchOver() {
	ctx := s.life.Context()
	v := s.watches.vigil(span{key: s.d.keys.epoch(s.lease)}, 1)
	defer v.end()
	for {
		events, err := v.next(ctx, pollEvery)
		if err != nil {
			return // the session is over
		}
		since := v.opened
		for _, e := range events {
			if e.deleted {
				since = max(since, e.rev)
			}
		}
		if len(events) == 0 && (v.open == 0 || !v.unread() || v.opened < s.told.Load()) {
			since = math.MaxInt64 // no event will come, or none has for long, or the service has gone back: ask
		}
		v.caughtUp(v.opened)
		if err := s.check(ctx, since); err != nil && !s.life.Over() {
			s.d.log.Warn("etcd: cannot tell whether the lease lives", "lease", leaseHex(s.lease), "err", err)
		}
		if len(events) > 0 {
			continue
		}
		if err := s.sweep(ctx); err != nil && !s.life.Over() {
			s.d.log.Warn("etcd: cannot tell what is on the lease", "lease", leaseHex(s.lease), "err", err)
		}
	}
}
