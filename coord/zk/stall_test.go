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

// What the leader says to a follower, and then what the follower says to its leader, may stall for less than syncLimit. Then
// the leader has long forgotten a session whose writes are still agreed to. The ensemble is set up as it ships, and so is the
// session.
func TestAHolderStopsInTimeThoughItsServersLinkStalls(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	c := servers.ZooKeeper(t, servers.Members(3), servers.Links(), servers.Tick(2*time.Second), servers.Config("syncLimit=5", "initLimit=10"))
	leader := c.Leader(t)
	i := slices.IndexFunc(c.Members(), func(m *servers.Member) bool { return m != leader })
	mine, others := c.Member(i), slices.Delete(c.Members(), i, i+1)
	h := newHarness(t, c)
	h.root = "/turnwise"
	h.plantForeign(t, "line") // so that it is there, and is not swept
	holder, next := connectTo(t, mine, ttl), connectTo(t, others[0], ttl, others[1])
	time.Sleep(ttl / 2) // idle

	deliver := c.Hold(leader, mine)
	time.Sleep(ttl * 8 / 10)
	held := mutex.New(holder, "line").LockChan(t.Context())
	time.Sleep(ttl * 3 / 100)
	granted := mutex.New(next, "line").LockChan(t.Context())
	time.Sleep(ttl * 2 / 100)
	heal := c.Hold(mine, leader)
	defer heal()
	deliver()
	neverTwo(t, held, granted)
}

// neverTwo returns when the next one has been let in for a while, and fails if the first one believes just then. Nothing may
// have come of that, since its client leaves a server that stalls.
func neverTwo(t *testing.T, first, next <-chan coord.Result) {
	t.Helper()
	var one, other *coord.Hold
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
