package coord

import (
	"context"
	"fmt"

	"github.com/turnwise/turnwise/internal/taken"
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
func Do(ctx context.Context, acquire func(context.Context) (*Hold, error), fn func(context.Context, *Hold) error) error {
	if fn == nil {
		return &Error{Op: "do", Err: fmt.Errorf("%w: the function is nil", ErrInvalid)}
	}
	return taken.Do(ctx, acquire, fn)
}

// Chan acquires in the background, for a select; recipes build their LockChan on it. The channel delivers one Result,
// and is closed once there is nothing left to take back. If ctx ends, or the hold is lost, before the Result has been
// received, the hold is released and the channel delivers the error instead. If acquire ends its goroutine (runtime.Goexit), the
// channel delivers ErrInvalid.
func Chan(ctx context.Context, acquire func(context.Context) (*Hold, error)) <-chan Result {
	return taken.Chan(ctx, acquire, func(h *Hold, err error) Result { return Result{h, err} }, func(h *Hold, err error) error {
		return &Error{Op: "acquire", Line: h.acquired.line, Err: err}
	}, &Error{Op: "acquire", Err: fmt.Errorf("%w: the function has ended its goroutine", ErrInvalid)})
}
