//go:build unix

package zk

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// What a follower says to its leader, and what the leader says to it, may stall one after the other, each for less than
// syncLimit. Then the leader has long forgotten a session whose writes are still agreed to. The ensemble is set up as it
// ships, and so is the session.
func TestAHolderStopsInTimeThoughItsServersLinkStalls(t *testing.T) {
	const ttl = 10 * time.Second
	for name, c := range map[string]struct {
		idles   time.Duration // how long nothing of the holder stands in line once the leader's word is held
		stalled time.Duration // until the holder's word is held instead
	}{
		"it joins while the leader's word stalls": {8 * time.Second, 8500 * time.Millisecond},
		"it joins soon after the stall began":     {time.Second, 5500 * time.Millisecond},
		"it holds already":                        {0, 8500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ensemble := servers.ZooKeeper(t, servers.Members(3), servers.Links(), servers.Tick(2*time.Second), servers.Config("syncLimit=5", "initLimit=10"))
			leader := ensemble.Leader(t)
			i := slices.IndexFunc(ensemble.Members(), func(m *servers.Member) bool { return m != leader })
			mine, others := ensemble.Member(i), slices.Delete(ensemble.Members(), i, i+1)
			next := connectTo(t, others[0], ttl, others[1])
			h := newHarness(t, ensemble)
			h.root = "/turnwise"
			h.plantForeign(t, "line") // so that it is not swept
			holder := connectTo(t, mine, ttl)
			join := func() <-chan coord.Result { return mutex.New(holder, "line").LockChan(t.Context()) }
			held := make(<-chan coord.Result)
			var hold *coord.Hold
			if c.idles == 0 {
				hold = renewed(t, holder, ttl)
			} else {
				time.Sleep(ttl / 2)
			}

			deliver := ensemble.Hold(leader, mine)
			time.Sleep(c.idles)
			if hold == nil {
				held = join()
			}
			time.Sleep(300 * time.Millisecond)
			granted := mutex.New(next, "line").LockChan(t.Context())
			time.Sleep(c.stalled - c.idles - 300*time.Millisecond)
			heal := ensemble.Hold(mine, leader)
			defer heal()
			deliver()
			neverTwo(t, hold, held, granted)
		})
	}
}

// neverTwo returns when the next one has been let in for a while, and fails if the first one believes just then. Nothing may
// have come of that, since its client leaves a server that stalls.
func neverTwo(t *testing.T, one *coord.Hold, first, next <-chan coord.Result) {
	t.Helper()
	var other *coord.Hold
	var ended, until time.Time
	for limit := time.Now().Add(3 * time.Minute); until.IsZero() || time.Now().Before(until); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(limit), "the next one is never let in")
		select {
		case r := <-first:
			if !errors.Is(r.Err, coord.ErrLost) { // as it got it
				require.NoError(t, r.Err)
				one = r.Hold
				t.Logf("the first one is let in, and sure for %v", time.Until(one.Deadline()).Round(time.Millisecond))
			}
		case r := <-next:
			require.NoError(t, r.Err)
			other = r.Hold
			until = time.Now().Add(6 * time.Second)
			if !ended.IsZero() {
				t.Logf("the first one stopped %v before the next one started", time.Since(ended).Round(time.Millisecond))
			}
		default:
		}
		switch {
		case one == nil:
		case one.Err() != nil && ended.IsZero():
			ended = time.Now()
		case one.Err() == nil && other != nil && other.Err() == nil:
			require.Fail(t, "two hold", "and would for %v", time.Until(one.Deadline()))
		}
	}
}
