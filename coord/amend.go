package coord

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// Amend replaces the kind and the data of the node: what it asks for, and what it says about itself. Token and place
// stay, and those that wait for the node look again. It is for recipes: a writer becomes a reader, a leader changes its
// value. The new kind must never ask for more than is held. Nested holds that need more than the new kind end with
// ErrLost.
//
// From the moment that the service is asked, the line is held as the new kind. If no answer comes, it stays so, as
// others may have been let in, and Amend returns ErrUnsettled. To settle what the node is at the service, amend it to
// the same kind again; until then any other kind is ErrInvalid. After any other error nothing has changed, unless the
// hold is lost.
func (h *Hold) Amend(ctx context.Context, kind string, data []byte) error {
	fail := func(err error) error {
		return &Error{Op: "amend", Line: h.acquired.line, Err: err}
	}
	if h.outer != nil {
		return fail(fmt.Errorf("%w: a hold that is nested, or taken together with others, shares its node", ErrInvalid))
	}
	if err := checkEntry(kind, data, Rule{WaitFor: func(Node, []Node) []Node { return nil }}); err != nil {
		return fail(err)
	}
	if err := (remarks{rank: h.says.rank}).check(data); err != nil {
		return fail(err)
	}
	ctx, cancel := h.With(ctx)
	defer cancel()
	if err := h.beginChange(ctx); err != nil {
		return fail(err)
	}
	defer func() { <-h.changing }()
	if h.grantedAs != "" && kind == h.joinedAs {
		kind = h.grantedAs
	}
	if open := h.openAs.Load(); open != nil && *open != kind {
		return fail(fmt.Errorf("%w: it is held as %s until that is settled", ErrInvalid, *open))
	}
	err := h.amend(ctx, kind, h.says.with(data))
	if err == nil {
		return nil
	}
	if end := h.Err(); end != nil {
		return fail(end)
	}
	if errors.Is(err, driver.ErrUnchanged) && !h.Unsettled() {
		return fail(translate(err))
	}
	return fail(fmt.Errorf("%w: %w", ErrUnsettled, translate(err)))
}

// beginChange takes changing, unless ctx or the hold ends first.
func (h *Hold) beginChange(ctx context.Context) error {
	select {
	case h.changing <- struct{}{}:
		err := h.Err()
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			<-h.changing
		}
		return err
	case <-ctx.Done():
		if err := h.Err(); err != nil {
			return err
		}
		return ctx.Err()
	}
}

// Unsettled reports whether the node is being amended to another kind, or such an amendment returned ErrUnsettled and
// has not been settled since.
func (h *Hold) Unsettled() bool { return h.outermost().openAs.Load() != nil }

// amend is called with changing taken. Its error is the driver's.
func (h *Hold) amend(ctx context.Context, kind string, data []byte) error {
	h.endWatch()
	opened := false
	if kind != h.place.Node().Kind {
		h.alone = false // what is left behind is not what was granted
		if kind != h.grantedAs {
			at := time.Now()
			opened = h.openAs.Load() == nil
			h.openAs.Store(&kind)
			if opened {
				h.acquired.tells.amended(at, h.Node)
			}
			h.downgrade(kind)
		}
	}
	err := h.place.Amend(ctx, kind, data)
	switch {
	case err == nil:
		h.openAs.Store(nil)
	case opened && errors.Is(err, driver.ErrUnchanged):
		h.openAs.Store(nil)
		h.acquired.tells.amended(time.Now(), h.Node) // it is what it was
	case errors.Is(err, driver.ErrRemoved):
		h.finish(lostRemoved)
	case errors.Is(err, driver.ErrSessionEnded):
		h.finish(h.session.lost())
	}
	if h.end.Load() == nil && h.timer != nil {
		h.timer.Reset(watchAfter)
	}
	return err
}

// announce lets those that wait for my turn know that it has come. A node tells them when it is announced, when its
// owner amends it, and when it leaves. announce goes on after the hold is lost: until its owner lets go, the node
// stands and keeps those behind it waiting.
func (h *Hold) announce() {
	for tries := 0; ; tries++ {
		select {
		case h.changing <- struct{}{}:
		case <-h.left:
			return
		}
		err := h.announceOnce()
		<-h.changing
		if err == nil || errors.Is(err, driver.ErrRemoved) || errors.Is(err, driver.ErrSessionEnded) {
			return
		}
		select {
		case <-time.After(driverkit.Pause(tries)):
		case <-h.left:
		case <-h.session.Done():
		}
	}
}

// announceOnce is called with changing taken.
func (h *Hold) announceOnce() error {
	select {
	case <-h.left:
		return nil
	default:
	}
	now, kind := h.place.Node(), h.grantedAs
	if open := h.openAs.Load(); open != nil {
		kind = *open
	} else if now.Kind != h.joinedAs {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.ctx), h.acquired.client.driver.RequestTimeout())
	defer cancel()
	return h.amend(ctx, kind, now.Data)
}
