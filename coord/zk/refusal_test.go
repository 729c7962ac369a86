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

// An ensemble may keep sessions from having nodes.
func TestASessionThatCanHaveNoNodesIsRefused(t *testing.T) {
	t.Parallel()
	c := servers.ZooKeeper(t, servers.Members(3), servers.Config("localSessionsEnabled=true", "localSessionsUpgradingEnabled=false"))
	_, err := mutex.New(connectTo(t, c.Member(0), patience), "a").Lock(storecheck.Within(t, patience))
	require.ErrorIs(t, err, coord.ErrDenied)
	require.ErrorContains(t, err, "localSessionsUpgradingEnabled")
}
