package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// roundLimit is how long an acceptor may take to vote.
const roundLimit = 4 * time.Second

// poll asks all acceptors, and returns when a majority has agreed, or no longer can. The requests to the others go on. The
// error is errRefused if only other proposers stood in the way. If the group has another roster by now, all are asked again.
//
// Votes of one term must not be counted in another, but a ballot goes on: who has promised it keeps that, and who was filled
// since has got the promises of the others.
func (q *Store) poll(ctx context.Context, ask func(ctx context.Context, r *roster, a *acceptor) vote) (t tally, err error) {
	err = q.inTerm(ctx, func(r *roster, again bool) (moved bool, err error) {
		t, err = q.pollIn(ctx, q.all, r.majority(), func(ctx context.Context, a *acceptor) vote { return ask(ctx, r, a) })
		t.again = again
		return err != nil && t.moved, err
	})
	return t, err
}

// pollIn asks some acceptors, until so many have agreed.
func (q *Store) pollIn(ctx context.Context, from []*acceptor, majority int, ask func(ctx context.Context, a *acceptor) vote) (tally, error) {
	t := tally{of: len(from)}
	if err := ctx.Err(); err != nil {
		return t, err
	}
	if err := q.canServe(); err != nil {
		return t, err
	}
	begun := time.Now()
	votes := make(chan vote, len(from))
	for _, a := range from {
		if !q.life.Go(func() { votes <- q.askOne(a, register.IsRenewal(ctx), ask) }) {
			return t, storekit.ErrClosed
		}
	}
	var enough <-chan time.Time
	for t.counted() < t.of {
		select {
		case v := <-votes:
			t.count(v)
			if errors.Is(v.err, errNoVote) || v.err == errMoved {
				q.lookAgain(v.from)
			}
		case <-ctx.Done():
			return t, ctx.Err()
		case <-enough:
			return t, errRefused
		}
		if len(t.yes) == majority {
			q.took(time.Since(begun))
			return t, nil
		}
		if enough == nil && t.refused > 0 && t.of-t.refused-len(t.failed) < majority {
			// The others are about to answer; then it is known whether any has agreed.
			patience := time.NewTimer(q.usual())
			defer patience.Stop()
			enough = patience.C
		}
	}
	if t.refused > 0 && t.of-len(t.failed) >= majority {
		return t, errRefused
	}
	return t, fmt.Errorf("%d of %d do not vote: %w", len(t.failed), t.of, joinErrors(t.failed))
}

// askOne asks one acceptor. It does not end with the caller's ctx: what one acceptor has, all should have.
func (q *Store) askOne(a *acceptor, renewal bool, ask func(ctx context.Context, a *acceptor) vote) vote {
	ctx, cancel := context.WithTimeout(q.life.Context(), roundLimit)
	defer cancel()
	if renewal {
		ctx = register.ForRenewal(ctx)
	}
	if !a.votes(ctx) {
		return vote{from: a, err: errNoVote}
	}
	return ask(ctx, a)
}

// tally is what has come of a round so far.
type tally struct {
	of      int // how many were asked
	yes     []vote
	refused int
	higher  []ballot // what stood in the way, as those who refused say
	failed  []error
	moved   bool // somebody is in another term
	again   bool // they were asked before, in an earlier term, and some may have agreed then
}

func (t *tally) count(v vote) {
	switch {
	case v.err != nil:
		t.failed = append(t.failed, fmt.Errorf("%s: %w", v.from.Address, v.err))
		t.moved = t.moved || v.err == errMoved
	case v.refused:
		t.refused++
		t.higher = append(t.higher, v.higher)
	default:
		t.yes = append(t.yes, v)
	}
}

// toExceed returns which ballot the next round has to exceed for a majority to agree. What few say does not matter if others suffice: one
// server that names a ballot near the end of all there are, whoever has written that there, must not have the others promise one like
// it, since none of them would ever vote again. So such a ballot counts only if a majority says so.
func (t *tally) toExceed(majority int) ballot {
	slices.SortFunc(t.higher, ballot.compare)
	believed := t.higher
	if i := slices.IndexFunc(believed, func(b ballot) bool { return !b.isLikely() }); i >= 0 && len(believed)-i < majority {
		believed = believed[:i]
	}
	if n := min(majority-len(t.yes), len(believed)); n > 0 {
		return believed[n-1]
	}
	return ballot{}
}

// counted is how many have answered.
func (t *tally) counted() int { return len(t.yes) + t.refused + len(t.failed) }

// isVain reports whether nobody has agreed, and nobody will.
func (t *tally) isVain() bool { return t.refused == t.of && !t.again }
