package register

import (
	"context"
	"errors"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// noticing is the driver's store. The driver notices when a request fails: the server may have been away, and have come back with an
// older disk. (Where none fails the store says so; see Reconnecting.) That knows our sessions, but perhaps not who has come since. A server
// that takes the renewal of a session has that as it was left, so it has not gone back behind that. So after trouble nobody enters before
// his session has been renewed. (One that rests was left up to five TTLs ago, which says less: see coord/kube, where alone sessions rest.)
type noticing struct {
	Store
	d *Driver
}

func (n noticing) Read(ctx context.Context, key string) (Item, error) {
	it, err := n.Store.Read(ctx, key)
	n.d.notice(ctx, err)
	return it, err
}

func (n noticing) Swap(ctx context.Context, s Swap) (Item, error) {
	it, err := n.Store.Swap(ctx, s)
	n.d.notice(ctx, err)
	return it, err
}

func (n noticing) List(ctx context.Context, prefix string, yield func(Item) bool) error {
	err := n.Store.List(ctx, prefix, yield)
	n.d.notice(ctx, err)
	return err
}

func (n noticing) Listen(ctx context.Context, topic string, hear func([]byte)) (stop func(), err error) {
	stop, err = n.Store.Listen(ctx, topic, hear)
	n.d.notice(ctx, err)
	return stop, err
}

func (n noticing) Memory(ctx context.Context) (Memory, error) {
	m, err := n.Store.Memory(ctx)
	n.d.notice(ctx, err)
	return m, err
}

// notice takes in how a request went. One that its caller broke off says nothing, and neither does a refusal: a server that refuses is
// there, and may refuse for long.
func (d *Driver) notice(ctx context.Context, err error) {
	switch {
	case err == nil, errors.Is(err, ErrConflict), errors.Is(err, ErrTooLarge), errors.Is(err, ErrMute), driver.IsLasting(err):
	case ctx.Err() != nil && context.Cause(ctx) != errUnanswered:
	default:
		d.trouble.Saw(int64(d.clock.own(time.Now())) + 1)
	}
}

// errUnanswered is why a request ends that the store has not answered in time.
var errUnanswered = errors.New("the store has not answered in time")

// lastTrouble returns when there was trouble last, by clock.own: a request has failed, or the server may have been started anew. It is not known
// if a store does not know since when its server runs.
func (d *Driver) lastTrouble() (at time.Duration, known bool) {
	at = time.Duration(d.trouble.Load())
	if d.reconnecting == nil {
		return at, true
	}
	runs := d.reconnecting.RunsSince()
	if runs.IsZero() {
		return at, false
	}
	return max(at, d.clock.own(runs)), true
}

// hadTrouble reports whether there may have been trouble since then.
func (d *Driver) hadTrouble(since time.Duration) bool {
	at, known := d.lastTrouble()
	return !known || at > since
}

// isShaken reports whether there was trouble since the session was renewed, or before that was sent.
func (s *session) isShaken() bool {
	return s.d.presence == nil && s.d.hadTrouble(time.Duration(s.proven.Load()))
}
