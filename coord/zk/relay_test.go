//go:build unix

package zk

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
	"github.com/turnwise/turnwise/verify/servers"
)

// A server that has lost its leader, or a leader that has lost its followers, goes on answering for syncLimit ticks;
// meanwhile the others end the session. So such an answer vouches for nothing.
func TestAHolderStopsInTimeThoughItsServerGoesOnAnswering(t *testing.T) {
	for name, rounds := range map[string]int{"a follower without its leader": 2, "a leader without its followers": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := servers.ZooKeeper(t, servers.Members(3), servers.Links(), servers.Tick(300*time.Millisecond), servers.Config("syncLimit=10", "initLimit=15"))
			mine := c.Leader(t)
			if name == "a follower without its leader" {
				leader := mine
				mine = c.Member(slices.IndexFunc(c.Members(), func(m *servers.Member) bool { return m != leader }))
			}
			others := slices.DeleteFunc(c.Members(), func(m *servers.Member) bool { return m == mine })
			const ttl = 1500 * time.Millisecond
			holder := connectTo(t, mine, ttl)
			next := connectTo(t, others[0], ttl, others[1])
			for range rounds {
				hold := renewed(t, holder, ttl)
				granted := mutex.New(next, "line").LockChan(t.Context())
				heal := c.Isolate(mine)
				r := stopsInTime(t, hold, granted)
				heal()
				_ = hold.Release()
				require.NoError(t, r.Hold.Release())
				require.NoError(t, c.Ready(t.Context()))
			}
		})
	}
}

// A server with a smaller maxSessionTimeout cuts short the timeout of a session that comes to it, and the service then
// counts by that.
func TestAHolderStopsInTimeThoughAServerGrantsLess(t *testing.T) {
	const ttl = 10 * time.Second
	c := servers.ZooKeeper(t, servers.Members(3), servers.ConfigOf(1, "maxSessionTimeout=1000"))
	generous, strict := zkwire.Start(t, c.Member(0).Addr()), zkwire.Start(t, c.Member(1).Addr())
	strict.Refuse()
	var log logged
	holder, err := Connect(t.Context(), []string{generous.Addr(), strict.Addr()}, WithTTL(ttl), WithLogger(log.logger()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = holder.Close() })
	hold, err := mutex.New(holder, "line").Lock(t.Context())
	require.NoError(t, err)
	granted := mutex.New(connectTo(t, c.Member(2), ttl), "line").LockChan(t.Context())

	generous.Refuse()
	strict.Heal()
	generous.Cut()
	require.Eventually(t, func() bool { return strict.Bytes(faultproxy.ToClient) > 0 }, patience, 100*time.Microsecond)
	strict.Stall(faultproxy.ToServer) // from now on the service hears nothing of the session
	r := stopsInTime(t, hold, granted)
	require.Contains(t, log.String(), "level=WARN")
	require.Contains(t, log.String(), "from 10s to 1s")

	strict.Heal() // the next session begins with what is granted here
	again := mutex.New(holder, "line").LockChan(t.Context())
	require.NoError(t, r.Hold.Release())
	r = <-again
	require.NoError(t, r.Err)
	require.NoError(t, r.Hold.Release())
	require.NoError(t, renewed(t, holder, 2*time.Second).Release(), "it is renewed often enough")
}

// renewed returns a hold that has lasted for a while. It tries again if the hold is lost, since a busy machine may stall
// for that long.
func renewed(t *testing.T, c *coord.Client, d time.Duration) *coord.Hold {
	for range 10 {
		hold, err := mutex.New(c, "line").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(d)
		if hold.Err() == nil {
			return hold
		}
		_ = hold.Release()
	}
	t.Fatal("no hold lasts")
	return nil
}

// stopsInTime returns what the next one is granted, and fails if the holder then still believes that it holds.
func stopsInTime(t *testing.T, hold *coord.Hold, granted <-chan coord.Result) coord.Result {
	var lost time.Time
	limit := time.After(3 * time.Minute) // the others may have to elect a leader, on a busy machine more than once
	for {
		select {
		case <-limit:
			t.Fatal("the next one is never let in")
		case r := <-granted:
			require.Error(t, hold.Err(), "two hold: the next one was let in, and the holder believes")
			require.NoError(t, r.Err)
			if !lost.IsZero() {
				t.Logf("the holder stopped %v before the next one started", time.Since(lost).Round(time.Millisecond))
			}
			return r
		case <-time.After(time.Millisecond):
			if lost.IsZero() && hold.Err() != nil {
				lost = time.Now()
			}
		}
	}
}
