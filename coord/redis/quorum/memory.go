package quorum

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnwise/turnwise/coord/register"
)

// Memory returns the memory of the group. It lasts as long as a majority remembers, and is another one after the group was
// founded again.
func (q *Store) Memory(ctx context.Context) (register.Memory, error) {
	m, err := q.remember(ctx)
	return m, pkg.Failed(ctx, err, "look at the group")
}

// remember finds the group that a majority is in, and goes by that from now on.
func (q *Store) remember(ctx context.Context) (register.Memory, error) {
	all, err := q.survey(ctx, func(all []member) bool { return q.groupOf(all) != "" })
	group := q.groupOf(all)
	if group == "" {
		if err == nil {
			err = errors.New("no majority votes")
		}
		return register.Memory{}, fmt.Errorf("%w: %w", err, together(nonVoters(all)))
	}
	if err := q.suits(group); err != nil {
		return register.Memory{}, err
	}
	m := register.Memory{ID: group, For: register.Forever}
	for _, one := range all {
		if one.err == nil && one.group == group {
			m.For = min(m.For, one.since)
		}
	}
	if group != *q.group.Load() {
		q.ledger.forget()
	}
	q.join(group, all)
	q.forgot.Store(false)
	return m, nil
}
