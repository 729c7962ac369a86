package election

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/turnwise/turnwise/coord"
)

// Rank says how much this candidate should lead, compared with the others: the greater the better. A candidate with a rank gives way to
// better ones. If it is elected while one stands, it goes back to the end of the line; if one comes while it leads, Run ends the term,
// and who campaigned hears of it by Term.Better. So a better one leads soon after it has come, once those ahead of it have stepped
// aside, one after the other. A candidate without a rank counts as one of rank 0, and gives way to nobody.
//
// A leader with a rank watches all candidates: see coord.Client.WatchLine for what that costs.
func Rank(n int) Option {
	return func(e *Election) {
		e.rank = &n
		e.opts = append(e.opts, coord.Rank(n))
	}
}

// ErrBetter is the cause with which the context of Run's function ends when a better candidate stands: see Rank. Run then stands again.
var ErrBetter = errors.New("turnwise: a better candidate stands for election")

// isBetter reports whether somebody in line is a candidate to whom this one gives way.
func (e *Election) isBetter(n coord.Node) bool { return e.rank != nil && stands(n) && n.Rank > *e.rank }

// givesWay reports whether a better candidate stands, or why the term has ended meanwhile. If nobody can say, the term goes on.
func (t *Term) givesWay(ctx context.Context) (gives bool, end error) {
	if t.of.rank == nil {
		return false, nil
	}
	looking, cancel := t.With(ctx)
	defer cancel()
	all, err := t.of.client.Line(looking, t.of.name)
	return err == nil && slices.ContainsFunc(all, t.of.isBetter), t.Err()
}

// Better waits until a better candidate stands, and returns which: see Rank. When the term ends it returns why, and when ctx ends
// its error.
func (t *Term) Better(ctx context.Context) (coord.Node, error) {
	if t.of == nil || t.of.rank == nil {
		return coord.Node{}, &coord.Error{Op: "line", Err: fmt.Errorf("%w: the election has no Rank", coord.ErrInvalid)}
	}
	return t.Behind(ctx, t.of.isBetter)
}

// Yield lets the next candidate lead: it resigns, and stands again behind all who stand now, with the value that the term shows. It
// returns the next term of this candidate. If ctx descends from the term it returns coord.ErrHeld, and the term goes on.
func (t *Term) Yield(ctx context.Context) (*Term, error) {
	if t.of == nil {
		return nil, &coord.Error{Op: "acquire", Err: fmt.Errorf("%w: the term is of no election", coord.ErrInvalid)}
	}
	if t.of.client.Held(ctx, t.of.name) != nil { // ctx would end with the term
		return nil, &coord.Error{Op: "acquire", Line: t.of.name, Err: coord.ErrHeld}
	}
	value := t.Node().Data
	if err := t.Release(); err != nil && !errors.Is(err, coord.ErrLost) {
		return nil, err
	}
	return t.of.Campaign(ctx, value)
}
