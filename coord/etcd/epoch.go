package etcd

import (
	"context"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/internal/bell"
)

// epoch is the session's epoch key, which every join compares. When a join's outcome is open the key is written again:
// a join that is still on its way then fails, and what a read shows afterwards is final. (A read alone settles nothing:
// a transaction was seen to be applied a second after it.)
//
// The key also tells whether the lease lives: it goes with it.
type epoch struct {
	rev  atomic.Int64  // the key's mod revision as far as we know
	lock chan struct{} // held by the one who writes it, or looks whether it stands
	seen int64         // the last revision at which the lease was known to live; guarded by lock
}

func (e *epoch) acquire(ctx context.Context) error {
	select {
	case e.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// moveEpoch returns when nothing that compares with the epoch old can be applied any more.
func (s *session) moveEpoch(ctx context.Context, old int64) error {
	if err := s.epoch.acquire(ctx); err != nil {
		return unanswered(ctx, "move the epoch", nil)
	}
	defer func() { <-s.epoch.lock }()
	if s.epoch.rev.Load() > old {
		return nil // somebody else had to, after old
	}
	return s.putEpoch(ctx)
}

// confirm settles whether the lease lives, by a write that only a living one can make. It ends the session if not.
func (s *session) confirm(ctx context.Context) error {
	if err := s.epoch.acquire(ctx); err != nil {
		return unanswered(ctx, "confirm the lease", nil)
	}
	defer func() { <-s.epoch.lock }()
	return s.putEpoch(ctx)
}

func (s *session) putEpoch(ctx context.Context) error {
	return s.d.ask(ctx, "put the session's key", func(ctx context.Context) error {
		put, err := s.d.kv.Put(ctx, s.d.names.epoch(s.lease), "", clientv3.WithLease(s.lease))
		if err == nil {
			s.epoch.learn(put.Header.Revision)
			s.epoch.seen = max(s.epoch.seen, put.Header.Revision)
		}
		if is(err, rpctypes.ErrLeaseNotFound) {
			s.end(errLeaseGone)
		}
		return err
	})
}

// learn never goes back: replies may overtake each other.
func (e *epoch) learn(rev int64) {
	for {
		known := e.rev.Load()
		if rev <= known || e.rev.CompareAndSwap(known, rev) {
			return
		}
	}
}

// goesOn ends the session if the service is now at a revision before one that it had told already: it has lost its data,
// or was given older ones, and the lease with them.
func (s *session) goesOn(now, told int64) error {
	if now >= told {
		return nil
	}
	s.end(errWentBack)
	return errWentBack
}

// check returns nil if the lease lived at revision since, as far as the service can tell, and ends the session if it
// does not live any more.
func (s *session) check(ctx context.Context, since int64) error {
	if err := s.epoch.acquire(ctx); err != nil {
		return unanswered(ctx, "look for the lease", nil)
	}
	defer func() { <-s.epoch.lock }()
	if s.epoch.seen >= since {
		return nil
	}
	stands := false
	err := s.d.ask(ctx, "look for the session's key", func(ctx context.Context) error {
		got, err := s.d.kv.Get(ctx, s.d.names.epoch(s.lease), clientv3.WithKeysOnly())
		if err == nil {
			stands = got.Count > 0
			if stands {
				s.epoch.seen = got.Header.Revision
			}
		}
		return err
	})
	if err != nil || stands {
		return err
	}
	return s.putEpoch(ctx) // the lease is gone, or somebody has removed the key
}

// watchOver listens whether the lease is taken away out of the blue: by an operator, or by a leader that was frozen
// and does not know of the renewals since.
func (s *session) watchOver() {
	bell := bell.New()
	w := s.watches.add(span{key: s.d.names.epoch(s.lease)}, bell)
	defer s.watches.drop(w)
	watch := int64(0)
	for {
		select {
		case <-bell:
		case <-s.life.Done():
			return
		}
		news := w.take()
		since := int64(0)
		if news.opened > 0 && news.watch != watch {
			watch, since = news.watch, news.opened // nobody listened before
		}
		for _, e := range news.events {
			if e.deleted {
				since = max(since, e.rev)
			}
		}
		if since > 0 {
			if err := s.check(s.life, since); err != nil && s.life.Err() == nil {
				s.d.log.Warn("etcd: cannot tell whether the lease lives", "lease", leaseHex(s.lease), "err", err)
			}
		}
	}
}
