package quorum

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register"
)

// Swap takes one trip if the last swap of the register was ours too, and two otherwise.
func (q *Store) Swap(ctx context.Context, s register.Swap) (register.Item, error) {
	a, err := q.swap(ctx, s)
	return a.item(s.Key), pkg.Failed(ctx, err, "swap %q", s.Key)
}

func (q *Store) swap(ctx context.Context, s register.Swap) (accepted, error) {
	if err := server.CheckValue(s.Value); err != nil {
		return accepted{}, err
	}
	w := &swapping{Swap: s, again: q.ledger.wasOpen(s.Next)}
	a, err := q.change(ctx, s.Key, w.edit)
	if err == nil {
		switch {
		case errors.Is(w.outcome, errApplied):
			return accepted{content: content{version: s.Next, value: s.Value}}, nil
		case w.outcome == nil || errors.Is(w.outcome, register.ErrConflict):
			return a, w.outcome
		}
	}
	q.ledger.leaveOpen(s.Next)
	return accepted{}, cmp.Or(err, w.outcome)
}

// A swapping is one Swap on its way through the rounds.
type swapping struct {
	register.Swap
	again   bool    // an earlier call with the same swap was left open
	next    content // what was proposed last
	outcome error   // of the last edit: nil if it swaps, or has swapped
}

// edit is what a swap makes of what is there. It is called for each round, and after one that failed.
func (w *swapping) edit(now content, tried bool) (content, time.Duration) {
	w.outcome = nil
	switch {
	case now.version == w.Old && tried && w.isLost(now):
		w.outcome = errOpen // it may have been applied, and must not be again
		return now, w.Reserve
	case now.version == w.Old && !w.isIn(now): // a register that is empty again has the version that it had
		id := w.next.id
		if w.next = now.after(w.Swap); !id.IsZero() {
			w.next.id = id // of the same swap, though what it replaces may be another one now
		}
		return w.next, 0
	case now.version == w.Next:
		return now, 0
	}
	w.outcome = register.ErrConflict
	switch {
	case w.again && slices.Contains(now.past, w.Next):
		w.outcome = errApplied
	case tried && !w.next.id.IsZero():
		w.outcome = outcomeOf(w.next, now)
	}
	return now, w.Reserve // writing it back makes sure that it is there
}

// isIn reports whether the swap is what stands there, or was there before.
func (w *swapping) isIn(now content) bool {
	return !w.next.id.IsZero() && (now.id == w.next.id || slices.Contains(now.past, w.next.id)) || w.again && slices.Contains(now.past, w.Next)
}

// isLost reports whether a register is as it was before the swap, and has been swapped so often meanwhile that nobody knows whether by ours.
func (w *swapping) isLost(now content) bool {
	var replaces register.Version
	if len(w.next.past) > 0 {
		replaces = w.next.past[0]
	}
	return !w.next.id.IsZero() && now.id != replaces && outcomeOf(w.next, now) == errOpen
}

// outcomeOf tells what became of a swap that was proposed in vain, given what stands there now.
func outcomeOf(s, now content) error {
	for _, id := range now.past {
		if id == s.id {
			return errApplied
		}
		if len(s.past) > 0 && id == s.past[0] {
			return register.ErrConflict // what it was to replace was replaced by another
		}
	}
	if len(now.past) < pastSize && len(s.past) == 0 {
		return register.ErrConflict // all that was ever there is known
	}
	return errOpen
}
