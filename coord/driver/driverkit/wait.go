package driverkit

import (
	"context"
	"errors"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/internal/chance"
)

// ConnectFor is how long a driver's Connect tries if its context has no deadline.
const ConnectFor = 30 * time.Second

// BoundConnect returns ctx, with a deadline ConnectFor from now if it has none.
func BoundConnect(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, bound := ctx.Deadline(); bound {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, ConnectFor)
}

// Bell wakes one waiter. If it is rung several times before it is heard, it wakes once.
type Bell chan struct{}

// NewBell returns a bell that has not been rung.
func NewBell() Bell { return make(Bell, 1) }

// Ring rings the bell. It never blocks.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// Unless calls do, which may take long, and gives up on it when the bell rings: the context of do ends, its error is
// dropped, and the bell can still be heard. Otherwise Unless returns the error of do.
func (b Bell) Unless(ctx context.Context, do func(context.Context) error) error {
	doing, giveUp := context.WithCancel(ctx)
	listened := make(chan bool)
	go func() {
		select {
		case <-b:
			giveUp()
			listened <- true
		case <-doing.Done():
			listened <- false
		}
	}()
	err := do(doing)
	giveUp()
	if rang := <-listened; rang {
		b.Ring()
		if ctx.Err() == nil {
			return nil
		}
	}
	return err
}

// doubtFor is how long a holder goes on asking. A busy machine takes 20 ms to hear that a session has ended.
const doubtFor = 50 * time.Millisecond

// Doubt is for a holder that hears that its node is gone: has the session gone with it? It asks the service. If no
// answer comes soon, or it may not ask, the news is enough and the node counts as removed: a holder must not believe in its
// hold until a stalled link answers, or until somebody gives it its rights back.
func Doubt(ctx context.Context, life *Life, ask func(context.Context) error) error {
	err := DoubtFor(ctx, life, doubtFor, ask)
	if errors.Is(err, driver.ErrDenied) && ctx.Err() == nil && !life.Over() {
		return driver.ErrRemoved
	}
	return err
}

// DoubtFor is for a holder that has but a hint of it, and waits this long for an answer. A refusal is one.
func DoubtFor(ctx context.Context, life *Life, wait time.Duration, ask func(context.Context) error) error {
	asking, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := ask(asking)
	if err != nil && asking.Err() != nil && ctx.Err() == nil && !life.Over() {
		return driver.ErrRemoved
	}
	return err
}

const (
	firstPause = 10 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// Pause returns how long to wait after this many failed tries, counted from 0. It doubles from 10 ms to half a second,
// so brief trouble costs little time, and a service that is away for an hour is asked only twice a second.
func Pause(tries int) time.Duration {
	return min(firstPause<<min(max(tries, 0), 10), lastPause)
}

// Slowly is a number of tries after which Pause is at its longest: for requests that are refused rather than lost.
const Slowly = 10

// Jitter returns d give or take a quarter, so that callers who failed together do not all try again together.
func Jitter(d time.Duration) time.Duration {
	if d < 4 {
		return d
	}
	return d*3/4 + time.Duration(chance.Below(int64(d/2)))
}

const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// Retries are the pauses of whoever tries again for as long as he lives. They grow from a tenth of a second to five, and begin anew
// after a try that has lasted for longer than that.
type Retries struct{ next time.Duration }

// Next returns how long to wait after a try that took so long.
func (r *Retries) Next(took time.Duration) time.Duration {
	pause := r.next
	if pause == 0 || took > lastRetry {
		pause = firstRetry
	}
	r.next = min(2*pause, lastRetry)
	return pause
}

// Sleep waits after a try that began then, for half of that at least, so that those who failed together do not try again together.
// It returns ctx's error as soon as ctx ends.
func (r *Retries) Sleep(ctx context.Context, began time.Time) error {
	half := r.Next(time.Since(began)) / 2
	return Sleep(ctx, half+time.Duration(chance.Below(int64(half))))
}

// pollsOfAll is the time between polls, counting those of all waiters of a session: ten thousand that wait for hours
// are no load.
const pollsOfAll = 50 * time.Millisecond

// PollPause returns how long a waiter should wait before it looks without having been told of a change, if so many wait
// in its session. A driver does not trust its watches alone.
func PollPause(least time.Duration, waiting int) time.Duration {
	return max(least, time.Duration(waiting)*pollsOfAll)
}

// Sleep waits for d, or returns ctx's error as soon as ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
