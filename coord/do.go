package coord

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Result is what the channel of Chan, LockChan and the like delivers.
type Result struct {
	Hold *Hold
	Err  error
}

// Do acquires a hold, runs fn and releases the hold; recipes build their own Do on it. fn's context ends with the hold
// or with ctx. fn should then stop; until it has returned, the node stays and is renewed. The hold is also released if
// fn panics. fn is run once or not at all.
//
// The error is acquire's, fn's or Release's, each unchanged (ErrLost: the hold did not last to the end), or the last two
// joined.
func Do(ctx context.Context, acquire func(context.Context) (*Hold, error), fn func(context.Context, *Hold) error) (err error) {
	if fn == nil {
		return &Error{Op: "do", Err: fmt.Errorf("%w: the function is nil", ErrInvalid)}
	}
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

// Chan acquires in the background, for a select; recipes build their LockChan on it. The channel delivers one Result,
// and is closed once there is nothing left to take back. If ctx ends, or the hold is lost, before the Result has been
// received, the hold is released and the channel delivers the error instead.
func Chan(ctx context.Context, acquire func(context.Context) (*Hold, error)) <-chan Result {
	results := make(chan Result, 1)
	go func() {
		defer close(results)
		h, err := acquire(ctx)
		results <- Result{h, err}
		if err != nil {
			return
		}
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-h.ctx.Done():
			err = context.Cause(h.ctx)
		}
		select {
		case r := <-results:
			released := make(chan struct{})
			go func() {
				defer close(released)
				r.Hold.Release()
			}()
			select {
			case <-released:
			case <-time.After(50 * time.Millisecond): // the release goes on; the hold has ended already
			}
			results <- Result{Err: &Error{Op: "acquire", Line: h.acquired.line, Err: err}}
		default: // it was received: the hold is the receiver's
		}
	}()
	return results
}
