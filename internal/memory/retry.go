package memory

import (
	"context"
	"errors"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// do sends a request that belongs to no session.
func (d *Driver) do(ctx context.Context, r Request, apply func()) error {
	r.Link, r.Who = d.name, nameOf(ctx)
	ctx, cancel := context.WithTimeout(ctx, d.timeout*9/10) // so that callers who allow RequestTimeout hear of it
	defer cancel()
	var unanswered bool
	err := d.service.cfg.Network.Do(ctx, r, func() { unanswered = !d.service.reach(r, apply) })
	if err == nil && unanswered {
		<-ctx.Done()
		err = ctx.Err()
	}
	return err
}

// fetch reads something, and tries until there is an answer.
func fetch[T any](ctx context.Context, d *Driver, r Request, read func() T) (T, error) {
	for {
		got := new(T) // so that a late answer is written where nobody reads it any more
		if err := d.do(ctx, r, func() { *got = read() }); err == nil {
			return *got, nil
		}
		if err := d.pause(ctx); err != nil {
			return *new(T), err
		}
	}
}

// pause waits between two tries. It is always equally long, so that a seed of the simulation replays a run.
func (d *Driver) pause(ctx context.Context) error { return driverkit.Sleep(ctx, d.timeout/20) }

var errUnknown = errors.New("memory: no answer")

// once sends a request once. An error is ctx's, ErrSessionEnded, ErrDenied or errUnknown: then nobody knows what became
// of the request.
func (s *session) once(ctx context.Context, r Request, apply func() answer) (answer, error) {
	if s.life.Over() {
		return answer{}, s.life.Why()
	}
	r.Session = s.id
	bound, unbind := s.life.Bind(ctx)
	defer unbind()
	got := new(answer) // so that a late answer is written where nobody reads it any more
	err := s.driver.do(bound, r, func() { *got = apply() })
	switch {
	case s.life.Over():
		return answer{}, s.life.Why()
	case err != nil && ctx.Err() != nil:
		return answer{}, ctx.Err()
	case err != nil:
		return answer{}, errUnknown
	case got.expired:
		s.life.End(errExpired)
		return answer{}, s.life.Why()
	case got.denied:
		return answer{}, driver.ErrDenied
	}
	return *got, nil
}

// insist sends a request again and again until it is answered, so it must be one that may be repeated.
func (s *session) insist(ctx context.Context, r Request, apply func() answer) (answer, error) {
	for {
		a, err := s.once(ctx, r, apply)
		if err != errUnknown {
			return a, err
		}
		if err := s.driver.pause(ctx); err != nil {
			return answer{}, s.life.Verdict(err)
		}
	}
}
