package zk

import (
	"testing"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// Whoever would put more there than an operator allows is told so at once, and the hold stands.
func TestAQuotaThatIsUsedUpIsSaidToBe(t *testing.T) {
	t.Parallel()
	c := servers.ZooKeeper(t, servers.JavaOptions("-Dzookeeper.enforceQuota=true"))
	client := connectTo(t, c.Member(0), patience)
	ctx := storecheck.Within(t, patience)
	lock := mutex.New(client, "a/b")
	hold, err := lock.Lock(ctx)
	require.NoError(t, err)
	admin := adminConn(t, c.Addrs())
	for _, n := range []struct{ path, data string }{
		{"", ""},
		{"/zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=4"},
		{"/zookeeper_stats", "count=4,bytes=0"},
	} {
		_, err := admin.Create("/zookeeper/quota/turnwise"+n.path, []byte(n.data), 0, gozk.WorldACL(gozk.PermAll))
		require.NoError(t, err)
	}
	for _, name := range []string{"a/b", "x/y/z"} { // the second with its directories
		_, err = mutex.New(client, name).Lock(ctx)
		require.ErrorContains(t, err, "quota")
		require.NotErrorIs(t, err, coord.ErrDenied, "it may be allowed later")
	}
	require.ErrorContains(t, hold.Amend(ctx, "R", nil), "quota")
	require.False(t, hold.Unsettled())
	err = hold.SetMemo(ctx, []byte("m"))
	require.ErrorContains(t, err, "quota")
	require.NotErrorIs(t, err, coord.ErrUnsettled)
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Release())
}

// As it comes, a server that heeds quotas lets anybody set them, whatever rights he has on what they are for. Then nobody joins until
// somebody takes the quota away; no hold ends, and those in line go on.
func TestWhoCanConnectSetsAQuotaThatKeepsOthersFromJoining(t *testing.T) {
	t.Parallel()
	c := servers.ZooKeeper(t, servers.JavaOptions("-Dzookeeper.enforceQuota=true"))
	client, err := Connect(t.Context(), c.Addrs(), WithTTL(patience), WithDigestAuth("alice", "secret"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	ctx := storecheck.Within(t, patience)
	hold, err := mutex.New(client, "orders").Lock(ctx)
	require.NoError(t, err)
	behind := make(chan *coord.Hold, 1)
	go func() {
		h, err := mutex.New(client, "orders").Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		behind <- h
	}()
	storecheck.Eventually(t, "somebody waits", func() bool {
		nodes, err := client.Line(ctx, "orders")
		return err == nil && len(nodes) == 2
	})
	bob := adminConn(t, c.Addrs())
	_, err = bob.Create("/turnwise/bobs", nil, 0, gozk.WorldACL(gozk.PermAll))
	require.ErrorIs(t, err, gozk.ErrNoAuth)
	for _, n := range []struct{ path, data string }{
		{"", ""}, {"/zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=1"}, {"/zookeeper_stats", "count=1,bytes=0"},
	} {
		_, err := bob.Create("/zookeeper/quota/turnwise"+n.path, []byte(n.data), 0, gozk.WorldACL(gozk.PermAll))
		require.NoError(t, err)
	}
	_, err = mutex.New(client, "other").Lock(ctx)
	require.ErrorContains(t, err, "quota")
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Release())
	if next := <-behind; next != nil {
		require.NoError(t, next.Release())
	}
	require.NoError(t, bob.Delete("/zookeeper/quota/turnwise/zookeeper_limits", -1))
	storecheck.Locked(t, client, "other")
}

// An ensemble may keep sessions from having nodes.
func TestASessionThatCanHaveNoNodesIsRefused(t *testing.T) {
	t.Parallel()
	c := servers.ZooKeeper(t, servers.Members(3), servers.Config("localSessionsEnabled=true", "localSessionsUpgradingEnabled=false"))
	_, err := mutex.New(connectTo(t, c.Member(0), patience), "a").Lock(storecheck.Within(t, patience))
	require.ErrorIs(t, err, coord.ErrDenied)
	require.ErrorContains(t, err, "localSessionsUpgradingEnabled")
}
