// Package taken is what can be done with a hold, whether it is of one line or of several.
package taken

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Hold is a hold of one line, or of several.
type Hold interface {
	Context() context.Context
	With(ctx context.Context) (context.Context, context.CancelFunc)
	Release() error
}

// Do acquires a hold, runs fn and releases the hold. See coord.Do.
func Do[H Hold](ctx context.Context, acquire func(context.Context) (H, error), fn func(context.Context, H) error) (err error) {
	h, err := acquire(ctx)
	if err != nil {
		return err
	}
	defer func() {
		lost := h.Release()
		switch {
		case err == nil:
			err = lost
		case lost != nil:
			err = errors.Join(err, lost)
		}
	}()
	ctx, cancel := h.With(ctx)
	defer cancel()
	return fn(ctx, h)
}

// Chan acquires in the background; see coord.Chan. result makes what the channel delivers, late wraps what ended a hold that nobody
// received, and exited is delivered if acquire does not return.
func Chan[H Hold, R any](ctx context.Context, acquire func(context.Context) (H, error), result func(H, error) R, late func(H, error) error, exited error) <-chan R {
	results := make(chan R, 1)
	go func() {
		defer close(results)
		returned := false
		defer func() {
			if !returned { // runtime.Goexit, as t.FailNow calls it: a channel that is closed at once would seem to deliver a hold
				var none H
				results <- result(none, exited)
			}
		}()
		h, err := acquire(ctx)
		returned = true
		results <- result(h, err)
		if err != nil {
			return
		}
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-h.Context().Done():
			err = context.Cause(h.Context())
		}
		select {
		case <-results:
			GiveBack(h)
			var none H
			results <- result(none, late(h, err))
		default: // it was received: the hold is the receiver's
		}
	}()
	return results
}

// GiveBack releases holds, side by side, for a caller who is not to be kept waiting by a service out of reach: the releases go
// on when it returns. The holds have ended by then.
func GiveBack[H Hold](holds ...H) {
	var all sync.WaitGroup
	for _, h := range holds {
		all.Go(func() { h.Release() })
	}
	released := make(chan struct{})
	go func() {
		defer close(released)
		all.Wait()
	}()
	select {
	case <-released:
	case <-time.After(50 * time.Millisecond):
	}
}
