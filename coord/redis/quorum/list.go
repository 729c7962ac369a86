package quorum

import (
	"context"
	"errors"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// List shows what a majority has, and where none agrees, makes one agree first.
func (q *Store) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	return pkg.Failed(ctx, q.list(ctx, prefix, yield), "list %q", prefix)
}

// list asks a majority for all that is not empty. What a majority has accepted, at least one of another majority has too, so no
// register that stands is missing. An acceptor that has emptied one does not name it, which says as much as that it has nothing
// there: those who do not agree are made to. So registers that have gone cost no transfer.
func (q *Store) list(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	if q.forgot.Load() { // a group that was founded since has other registers
		return register.ErrForgot
	}
	dumps, err := q.dump(ctx, prefix)
	if err != nil {
		return err
	}
	byKey := make(map[string][]vote)
	strange := make(map[string]bool)
	for _, d := range dumps {
		for key, k := range d.kept {
			byKey[key] = append(byKey[key], vote{accepted: k.accepted})
			strange[key] = strange[key] || k.strange
		}
	}
	for key, votes := range byKey {
		for len(votes) < len(dumps) { // who has nothing there has a say as well
			votes = append(votes, vote{})
		}
		it, err := q.listed(ctx, key, votes, strange[key])
		if err != nil {
			return err
		}
		if !it.Version.IsZero() && key != rosterKey && !yield(it) {
			return nil
		}
	}
	return nil
}

// listed returns what a list says of a register. If strange things were found there, the votes are not all of a majority.
func (q *Store) listed(ctx context.Context, key string, votes []vote, strange bool) (register.Item, error) {
	if !strange {
		a, err := q.settle(ctx, key, votes)
		return a.item(key), err
	}
	a, err := q.read(ctx, key)
	if errors.Is(err, driver.ErrDenied) {
		err = storekit.NotOurs("%v", err)
	}
	return storekit.Listed(key, a.item(key), err)
}

// dump returns what each of a majority keeps for the registers of a prefix that are not empty.
func (q *Store) dump(ctx context.Context, prefix string) (dumps []dump, err error) {
	err = q.inTerm(ctx, func(r *roster, _ bool) (moved bool, err error) {
		dumps, err = q.dumpIn(ctx, r, q.all, r.majority(), prefix, false)
		return errors.Is(err, errMoved), err
	})
	return dumps, err
}

// dumpIn returns what so many of some acceptors keep.
func (q *Store) dumpIn(ctx context.Context, r *roster, from []*acceptor, enough int, prefix string, all bool) (dumps []dump, err error) {
	type result struct {
		from *acceptor
		dump dump
		err  error
	}
	results := make(chan result, len(from)) // has room for those that nobody waits for any more
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, a := range from {
		go func() {
			a.votes(ctx) // if it does not, it says so
			d, err := a.dump(ctx, r, prefix, all)
			results <- result{a, d, err}
		}()
	}
	var failed []error
	moved := false
	for range from {
		select {
		case got := <-results:
			if errors.Is(got.err, errNoVote) {
				q.lookAgain(got.from)
			}
			if got.err != nil {
				failed = append(failed, got.err)
				moved = moved || errors.Is(got.err, errMoved)
			} else if dumps = append(dumps, got.dump); len(dumps) == enough {
				return dumps, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if moved {
		return nil, errMoved
	}
	return nil, joinErrors(failed)
}
