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
)

// His nodes are many megabytes of names. Who joins that line gets an error, and what he holds of others goes on.
func TestANeighbourWhoMayCreateInTheLineMakesLargeNames(t *testing.T) {
	n := playNeighbours(t, rights{line: gozk.PermCreate})
	c, err := Connect(n.ctx, n.cluster.Addrs(), append(n.opts, WithRoot(n.root), WithTTL(2*time.Second))...)
	require.NoError(t, err)
	defer c.Close()
	other, err := mutex.New(c, "other").Lock(n.ctx)
	require.NoError(t, err)
	for i := range 42 {
		_, err := n.bob.Create(n.root+"/a/"+strings.Repeat("x", 800<<10)+fmt.Sprint(i), nil, 0, bobsOwn())
		require.NoError(t, err)
	}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(n.ctx, 3*time.Second)
		_, err = mutex.New(c, "a").TryLock(ctx)
		cancel()
		require.ErrorIs(t, err, wire.ErrTooLong)
	}
	require.Eventually(t, func() bool {
		_, line, err := n.admin.Exists(n.root + "/a")
		return err == nil && line.NumChildren == 42+2 // his, the holder and who waits
	}, 5*time.Second, 50*time.Millisecond, "who was refused has left something behind")
	require.NoError(t, other.Err())
	require.NoError(t, other.Release())
	n.handsOver() // to who waits already
	next, err := mutex.New(c, "other").Lock(n.ctx)
	require.NoError(t, err)
	require.NoError(t, next.Release())
}
