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
	all, err := q.survey(ctx, isMajority)
	r := rosterOf(all)
	if r == nil {
		if err == nil {
			err = errors.New("no majority votes")
		}
		return register.Memory{}, fmt.Errorf("%w: %w", err, joinErrors(nonVoters(all)))
	}
	m := register.Memory{ID: r.group, For: lasts(all, r)}
	if m.For < time.Hour && len(all) < len(q.all) {
		// Some may have been started just now. Perhaps there is a majority of others.
		m.For = max(m.For, lasts(q.surveyAll(ctx, begun), r))
	}
	q.join(ctx, r, all)
	q.forgot.Store(false)
	return m, nil
}

// lasts returns for how long a majority has been in a group, and in its present run.
func lasts(all []member, r *roster) time.Duration {
	var ages []time.Duration
	for _, m := range all {
		if m.votes(r) || m.lags(r) {
			ages = append(ages, min(m.since, m.memory.For()))
		}
	}
	if len(ages) < r.majority() {
		return 0
	}
	slices.Sort(ages)
	return ages[len(ages)-r.majority()]
}
