//go:build unix

package zk

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
	"github.com/turnwise/turnwise/verify/servers"
)

// A leader that was stopped does not know yet that there is another one, and answers a sync by itself. A session that is connected to it
// shows an old memo, while another session of the same client stands in line and has been let in.
func TestAMemoIsNoOlderThanTheHoldUnderWhichItIsRead(t *testing.T) {
	t.Parallel()
	cluster := servers.ZooKeeper(t, servers.Members(3), servers.Links(), servers.Tick(500*time.Millisecond), servers.Config("syncLimit=10", "initLimit=15"))
	leader := cluster.Leader(t)
	others := slices.DeleteFunc(cluster.Members(), func(m *servers.Member) bool { return m == leader })
	connect := func(addrs ...string) (*service, *coord.Client) {
		d, err := newService(addrs, []Option{WithTTL(time.Minute)})
		require.NoError(t, err)
		c := coord.NewClient(d)
		t.Cleanup(func() { _ = c.Close() })
		return d, c
	}
	lock := func(c *coord.Client) *coord.Hold {
		h, err := mutex.New(c, "line").Lock(t.Context())
		require.NoError(t, err)
		return h
	}
	note := func(c *coord.Client, memo string) {
		h := lock(c)
		require.NoError(t, h.SetMemo(t.Context(), []byte(memo)))
		require.NoError(t, h.Release())
	}
	first, second := zkwire.Start(t, leader.Addr()), zkwire.Start(t, others[0].Addr())
	d, mine := connect(first.Addr(), second.Addr())
	_, another := connect(others[1].Addr())
	second.Refuse()
	_, err := d.Open(t.Context()) // with the leader
	require.NoError(t, err)
	second.Heal()
	first.Refuse()
	require.NoError(t, lock(mine).Release()) // with another one
	note(another, "old")

	heal := cluster.Isolate(leader)
	defer heal()
	leader.Freeze()
	note(another, "new") // the others have a leader of their own
	held := lock(mine)
	leader.Thaw()
	for start := time.Now(); time.Since(start) < time.Second; {
		memo, err := held.Memo(t.Context())
		require.NoError(t, err)
		require.Equal(t, "new", string(memo))
	}
}
