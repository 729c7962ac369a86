package zk

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/zk/internal/wire"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// His nodes are many megabytes of names. Who joins that line gets an error, and what he holds of others goes on. The server has memory
// enough: else it is the first that gives way.
func TestANeighbourWhoMayCreateInTheLineMakesLargeNames(t *testing.T) {
	t.Parallel()
	cluster := servers.ZooKeeper(t, servers.Heap("1500m"))
	m := cluster.Member(0)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const ttl = 10 * time.Second
	holder, err := mutex.New(connectTo(t, m, ttl), "a").Lock(ctx)
	require.NoError(t, err)
	waiter := mutex.New(connectTo(t, m, ttl), "a").LockChan(ctx)
	bob := adminConn(t, cluster.Addrs())
	standing := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool {
			_, line, err := bob.Exists("/turnwise/a")
			return err == nil && int(line.NumChildren) == n
		}, patience, 20*time.Millisecond, "there are not as many as there should be")
	}
	standing(2)
	c := connectTo(t, m, ttl)
	other, err := mutex.New(c, "other").Lock(ctx)
	require.NoError(t, err)
	for i := range 42 {
		_, err := bob.Create("/turnwise/a/"+strings.Repeat("x", 800<<10)+fmt.Sprint(i), nil, 0, gozk.WorldACL(gozk.PermAll))
		require.NoError(t, err)
	}
	for range 3 {
		_, err = mutex.New(c, "a").TryLock(ctx)
		require.ErrorIs(t, err, wire.ErrTooLong)
	}
	standing(42 + 2) // who was refused has left nothing behind
	require.NoError(t, other.Err())
	require.NoError(t, other.Release())
	require.NoError(t, holder.Release())
	r := <-waiter
	require.NoError(t, r.Err)
	require.NoError(t, r.Hold.Release())
	next, err := mutex.New(c, "other").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, next.Release())
}
