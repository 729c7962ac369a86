package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

// Memory returns the memory of the group. It lasts as long as a majority remembers, and is another one after the group was
// founded again. For counts from the time when a majority was in the group and running.
func (q *Store) Memory(ctx context.Context) (register.Memory, error) {
	m, err := q.recall(ctx)
	return m, pkg.Failed(ctx, err, "look at the group")
}

// recall finds the group that a majority is in, and goes by that from now on.
func (q *Store) recall(ctx context.Context) (register.Memory, error) {
	begun := time.Now()
	all, err := q.survey(ctx, func(all []member) bool { return q.groupOf(all) != "" })
	group := q.groupOf(all)
	if group == "" {
		if err == nil {
			err = errors.New("no majority votes")
		}
		return register.Memory{}, fmt.Errorf("%w: %w", err, together(nonVoters(all)))
	}
	if err := q.fits(group); err != nil {
		return register.Memory{}, err
	}
	m := register.Memory{ID: group, For: q.lasts(all, group)}
	if m.For < time.Hour && len(all) < len(q.all) {
		// Some may have been started just now. Perhaps there is a majority of others.
		rest, cancel := context.WithTimeout(ctx, 50*time.Millisecond+3*time.Since(begun))
		more, _ := q.survey(rest, func([]member) bool { return false })
		cancel()
		m.For = max(m.For, q.lasts(more, group))
	}
	if group != *q.group.Load() {
		q.ledger.forget()
	}
	q.join(group, all)
	q.forgot.Store(false)
	return m, nil
}

// lasts returns for how long a majority of all has been in a group, and in its present run.
func (q *Store) lasts(all []member, group string) time.Duration {
	var ages []time.Duration
	for _, m := range all {
		if m.err == nil && m.group == group {
			ages = append(ages, min(m.since, m.memory.For()))
		}
	}
	if len(ages) < q.majority() {
		return 0
	}
	slices.Sort(ages)
	return ages[len(ages)-q.majority()]
}
