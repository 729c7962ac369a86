package driverkit

import (
	"context"
	"sync/atomic"
)

// Deliver calls run, on the life of a session, to do something whose result must not get lost, such as a join, and
// returns that result. If ctx or the life ends first, Deliver returns that error at once; run goes on, and its result
// then goes to takeBack. Either the caller or takeBack gets the result, never both.
//
// Unless the life is over, run is started, even if ctx has ended already. It can ask whether its result is still
// wanted, and stop as long as there is nothing to take back.
func Deliver[T any](ctx context.Context, life *Life, run func(wanted func() bool) (T, error), takeBack func(T)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	var decided atomic.Bool // by whichever comes first: the caller giving up, or run bringing a result
	results := make(chan result, 1)
	if !life.Errand(func() {
		v, err := run(func() bool { return !decided.Load() })
		if decided.CompareAndSwap(false, true) {
			results <- result{v, err}
		} else if err == nil {
			takeBack(v)
		}
	}) {
		return none, life.Why()
	}
	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
	case <-life.Done():
	}
	if decided.CompareAndSwap(false, true) {
		return none, life.Stopped(ctx)
	}
	r := <-results
	return r.value, r.err
}

// UntilGone takes a node away. It calls try once on ctx and, unless that succeeds, again and again in the background
// until a try returns nil or the life is over. It waits for that as long as ctx lasts, and returns nil if the node is
// gone.
//
// mends reports whether an error is trouble that another try may soon mend. Any other error is returned without
// waiting; but what is refused today may be granted tomorrow, so the tries go on, slowly.
func UntilGone(ctx context.Context, life *Life, try func(context.Context) error, mends func(error) bool) error {
	life.setOut()
	if err := life.Stopped(ctx); err == nil && try(ctx) == nil {
		life.comeBack()
		return nil
	}
	said := make(chan error, 1)
	say := func(err error) {
		select {
		case said <- err:
		default:
		}
	}
	if !life.Go(func() {
		defer life.comeBack()
		for tries := 0; ; tries++ {
			err := try(life.Context())
			if err == nil || life.Over() {
				say(life.Verdict(err))
				return
			}
			if !mends(err) {
				say(err)
				tries = max(tries, Slowly)
			}
			if Sleep(life.Context(), Jitter(Pause(tries))) != nil {
				return
			}
		}
	}) {
		life.comeBack()
		return life.Why()
	}
	select {
	case err := <-said:
		return err
	case <-life.Done():
	case <-ctx.Done():
	}
	return life.Stopped(ctx)
}
