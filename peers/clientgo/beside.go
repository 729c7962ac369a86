package clientgo

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Beside returns a lock that leads only while both do, ours and one of client-go's, such as a Lease. It is for changing over while old
// programs, which know the Lease alone, and new ones run at once:
//
//  1. all lead by the Lease;
//  2. roll out programs that lead by Beside(lock, lease): they exclude each other, and the old ones;
//  3. when none of the old ones is left, roll out programs that lead by the lock alone: they exclude those of 2.
//
// Do not roll out 3 while any of 1 is left. Going back is the same, from 3 to 1.
func Beside(l *Lock, lease resourcelock.Interface) resourcelock.Interface {
	return &both{Lock: l, lease: lease}
}

type both struct {
	*Lock
	lease  resourcelock.Interface
	holder string // of the lease, as was seen last
}

// Get says who leads by our election, unless that is this one; then, who leads by the lease.
func (b *both) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, raw, err := b.Lock.Get(ctx)
	if err != nil || !b.ours() {
		return r, raw, err
	}
	if until := b.until(); time.Now().Before(until) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	if r, raw, err = b.lease.Get(ctx); err != nil { // if it is not there, the elector makes it, and that counts
		return r, raw, b.lacks(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holder = r.HolderIdentity
	return r, raw, nil
}

// until is how long the lease may take to answer an elector that was told that it leads: with ReleaseOnCancel it believes so until it has asked
// once more, and given up the lease, and gives each of these a time of its own.
func (b *both) until() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.believesUntil().Add(-b.lasts / 16)
}

// Create makes the lease.
func (b *both) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return b.while(ctx, r, b.lease.Create)
}

// Update updates both, and gives up the lease first.
func (b *both) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if r.HolderIdentity == "" {
		err := b.giveUp(ctx, r)
		_ = b.Lock.Update(ctx, r)
		return err
	}
	return b.while(ctx, r, b.lease.Update)
}

// giveUp gives up the lease, unless it is another's by now: client-go does not look whose it is.
func (b *both) giveUp(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	ctx, cancel := context.WithDeadline(ctx, b.until())
	defer cancel()
	b.mu.Lock()
	holder := b.holder
	b.mu.Unlock()
	if holder != b.lease.Identity() {
		return fmt.Errorf("turnwise: the lease is of %s by now", shown([]byte(holder)))
	}
	return b.lease.Update(ctx, r)
}

// while changes the lease while our term lasts, and for long enough after that.
func (b *both) while(ctx context.Context, r resourcelock.LeaderElectionRecord, change func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	asked := time.Now()
	if err := b.locked(func() error { return b.sure(r, asked) }); err != nil {
		return err
	}
	if err := change(ctx, r); err != nil {
		return b.lacks(err)
	}
	return b.locked(func() error {
		b.holder = r.HolderIdentity
		return b.tell(r, asked)
	})
}

// lacks notes that the elector cannot lead since the lease fails, though our term lasts.
func (b *both) lacks(err error) error {
	return b.locked(func() error { return b.cannotTell(err) })
}

func (b *both) RecordEvent(text string) { b.lease.RecordEvent(text) }

func (b *both) Describe() string { return b.lease.Describe() + " and " + b.Lock.Describe() }

// ours reports whether our term lasts.
func (b *both) ours() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leads()
}
