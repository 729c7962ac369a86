package zk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
	"github.com/turnwise/turnwise/verify/servers"
)

// A server drops a connection on which more than a megabyte is asked for at once, and with it whatever else the session asked for.
// The paths of the nodes in a long line are more than that.
func TestWhoWatchesALongLineKeepsItsConnection(t *testing.T) {
	t.Parallel()
	c := servers.ZooKeeper(t)
	admin := adminConn(t, c.Addrs())
	name := strings.Repeat(strings.Repeat("n", 250)+"/", 4)[:1003]
	dir := (&config{root: defaultRoot}).path(name)
	(&harness{admin: admin}).mkdir(t, dir)
	const members = 1100
	var all sync.WaitGroup
	for w := range 20 {
		all.Go(func() {
			for i := w; i < members; i += 20 {
				_, err := admin.Create(dir+"/"+fmt.Sprintf("_c_%032x-lock-", i), nil, gozk.FlagEphemeralSequential, gozk.WorldACL(gozk.PermAll))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	proxy := zkwire.Start(t, c.Member(0).Addr())
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	client, err := Connect(ctx, []string{proxy.Addr()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	hold, err := mutex.New(client, "other").Lock(ctx)
	require.NoError(t, err)
	views := 0
	var last coord.View
	for v, err := range client.WatchLine(ctx, name) {
		if errors.Is(err, context.DeadlineExceeded) { // on a busy machine a look at so many takes longer than one may; it goes on
			continue
		}
		require.NoError(t, err, "after %d views; the hold: %v", views, hold.Err())
		last = v
		if views++; views == 1 {
			require.Len(t, v.Nodes, members)
			time.AfterFunc(3*time.Second, func() { _ = admin.Delete(v.Nodes[members/2].ID, -1) }) // it watches by then
			continue
		}
		break
	}
	require.Len(t, last.Nodes, members-1)
	require.Equal(t, 1, proxy.Accepted(), "connections")
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Release())
}
