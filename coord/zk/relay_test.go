//go:build unix

package zk

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// A server that has lost its leader, or a leader that has lost its followers, goes on answering for syncLimit ticks; the
// others end the session meanwhile. So such an answer vouches for nothing.
func TestAHolderStopsInTimeThoughItsServerGoesOnAnswering(t *testing.T) {
	for name, rounds := range map[string]int{"a follower without its leader": 2, "a leader without its followers": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := servers.ZooKeeper(t, servers.Members(3), servers.Links(), servers.Tick(300*time.Millisecond), servers.Config("syncLimit=10"))
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
				hold, err := mutex.New(holder, "line").Lock(t.Context())
				require.NoError(t, err)
				granted := mutex.New(next, "line").LockChan(t.Context())
				time.Sleep(ttl) // it is renewed
				require.NoError(t, hold.Err())
				heal := c.Isolate(mine)
				for hold.Err() == nil {
					select {
					case <-granted:
						t.Fatal("two hold: the next one was let in, and the holder believes")
					case <-time.After(time.Millisecond):
					}
				}
				lost := time.Now()
				r := <-granted
				require.NoError(t, r.Err)
				t.Logf("the holder stopped %v before the next one started", time.Since(lost).Round(time.Millisecond))
				heal()
				_ = hold.Release()
				require.NoError(t, r.Hold.Release())
				require.NoError(t, c.Ready(t.Context()))
			}
		})
	}
}

func connectTo(t *testing.T, m *servers.Member, ttl time.Duration, more ...*servers.Member) *coord.Client {
	addrs := []string{m.Addr()}
	for _, m := range more {
		addrs = append(addrs, m.Addr())
	}
	c, err := Connect(t.Context(), addrs, WithTTL(ttl))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
