package etcd

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

const (
	// shortTry is how long one try of a request may take on a service that is well. A frozen member answers nothing
	// while its connection stands, and a request sent during a fail-over is never answered though the new leader is
	// up; the next try goes to the next member.
	shortTry = 600 * time.Millisecond

	// longTry is how long a try may grow when the service is slow, so that slow does not look like dead for ever.
	longTry = 5 * time.Second

	// requestTimeout has room for a try at a frozen member, and then two more.
	requestTimeout = 2 * time.Second

	firstPause = 10 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// pace says how long a try may take, from how the tries before went. It is shared by all requests of a driver.
type pace struct{ patience atomic.Int64 }

func (p *pace) try() time.Duration {
	return min(max(time.Duration(p.patience.Load()), shortTry), longTry)
}

// answered and timedOut balance such that one member of three being frozen does not slow down the tries at the other
// two, while a service that is slow as a whole soon gets the time it needs.
func (p *pace) answered(after time.Duration) {
	p.patience.Store(int64(max(4*after, p.try()*7/10)))
}

func (p *pace) timedOut() { p.patience.Store(int64(p.try() * 3 / 2)) }

// once is one try of a request.
func (d *service) once(ctx context.Context, do func(context.Context) error) error {
	// A deadline would go with the request, and cost the service a timer for each.
	try, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(ctx.Err()) })()
	defer time.AfterFunc(d.pace.try(), func() { cancel(context.DeadlineExceeded) }).Stop()
	begun := time.Now()
	err := do(try)
	switch {
	case err == nil:
		d.pace.answered(time.Since(begun))
	case try.Err() != nil:
		err = context.Cause(try)
		if ctx.Err() == nil {
			d.pace.timedOut()
		}
	}
	return err
}

// ask makes a request that does no harm when it is applied twice: it tries until there is an answer, or one that is
// final, or ctx ends.
func (d *service) ask(ctx context.Context, what string, do func(context.Context) error) error {
	var last error
	tokens := 0
	for pause := time.Duration(0); ; pause = nextPause(pause) {
		if err := sleep(ctx, pause); err != nil {
			return unanswered(ctx, what, last)
		}
		err := d.once(ctx, do)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			if judge(err) == passing && codeOf(err) != codeOf(ctx.Err()) {
				last = err
			}
			return unanswered(ctx, what, last)
		}
		if is(err, rpctypes.ErrInvalidAuthToken) && tokens < 3 {
			tokens++ // tokens end with a server's restart; the client fetches a new one for the next try
			continue
		}
		if judge(err) != passing {
			return d.explain(what, err)
		}
		last = err
	}
}

func nextPause(p time.Duration) time.Duration {
	if p == 0 {
		return firstPause
	}
	return min(2*p, lastPause)
}

// sleep waits about as long as told, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d/2 + rand.N(d))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
