package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/internal/trouble"
)

// Run is for a program that wants to lead whenever it can, for as long as it lives. It campaigns, and calls fn when it
// leads. fn's context ends as soon as the term is lost or ctx ends. fn must then stop, and Run waits for it, so two
// never run at once. When fn returns, the term is released, and then
//
//   - if the term was held to the end, Run returns what fn returned, but nil if that only says that ctx ended;
//   - if it was lost, Run campaigns again after a pause, which grows as long as terms do not last;
//   - if fn's context ended for a better candidate (see Rank: the cause is ErrBetter), Run stands again, unless fn failed.
//
// MaxWait does not bound its campaigns. Run returns nil when ctx ends while it stands in line; if the service was out
// of reach just then, or refused, the error says so (coord.ErrUnavailable, and what the service said). Run also returns
// an error that trying again cannot mend (coord.ErrDenied, ErrMissing, ErrClosed, ErrTooWeak, ErrInvalid, ErrInvalidName,
// and ErrHeld or ErrUpgrade within a hold of its own).
func (e *Election) Run(ctx context.Context, value []byte, fn func(ctx context.Context, t *Term) error) error {
	if fn == nil {
		return &coord.Error{Op: "run", Line: e.name, Err: fmt.Errorf("%w: the function is nil", coord.ErrInvalid)}
	}
	var retries driverkit.Retries
	var inTheWay error // why the last campaign failed, if nobody was in its way
	for ctx.Err() == nil {
		began := time.Now()
		term, err := e.campaign(ctx, value, nil)
		inTheWay = nil
		if err == nil {
			began = time.Now()
			held, err := e.serve(ctx, term, fn)
			if held {
				return err
			}
		} else if coord.IsLasting(err) {
			return err
		} else {
			inTheWay = trouble.Of(ctx, err)
		}
		_ = retries.Sleep(ctx, began)
	}
	return inTheWay
}

// serve runs fn for a term, and reports whether the term was held to the end, and if so, what fn said.
func (e *Election) serve(ctx context.Context, term *Term, fn func(context.Context, *Term) error) (held bool, err error) {
	defer term.Release() // even if fn panics
	working, cancel := term.With(ctx)
	defer cancel()
	working, yield := context.WithCancelCause(working)
	defer yield(nil)
	if e.rank != nil {
		go func() {
			if _, err := term.Better(working); err == nil {
				yield(ErrBetter)
			}
		}()
	}
	err = fn(working, term)
	if term.Release() != nil {
		return false, nil
	}
	ended := func(ctx context.Context) bool {
		return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
	}
	switch better := context.Cause(working) == ErrBetter && (err == nil || ended(working)); {
	case better && ctx.Err() == nil:
		return false, nil
	case better || ended(ctx):
		err = nil
	}
	return true, err
}
