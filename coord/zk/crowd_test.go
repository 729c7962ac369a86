package zk

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
	"github.com/turnwise/turnwise/verify/servers"
)

// A crowd of waiters of one client is served in order, each once, and a release wakes one of them.
func TestACrowdOfWaitersOfOneClient(t *testing.T) {
	crowd := 2000
	if os.Getenv("TURNWISE_LONG") != "" {
		crowd = 10_000
	}
	proxy := zkwire.Start(t, servers.ZooKeeper(t, servers.Shared()).Addrs()[0])
	few, _ := drain(t, proxy, 20)
	many, wakes := drain(t, proxy, crowd)
	t.Logf("requests a hand-off: %.2f with 20 waiters, %.2f with %d; wake-ups a grant: %.3f", few, many, crowd, wakes)
	require.LessOrEqual(t, wakes, 1.1)
	require.LessOrEqual(t, many, few*1.3)
}

// drain makes n wait for a mutex and counts what it takes to serve them all.
func drain(t *testing.T, proxy *zkwire.Proxy, n int) (requests, wakes float64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var waiting, woken atomic.Int64
	client, err := Connect(ctx, []string{proxy.Addr()}, WithTTL(10*time.Minute), WithClient(coord.WithObserver(&coord.Observer{
		Waiting: func(time.Time, coord.Node, int) { waiting.Add(1) },
		Woken:   func(time.Time, coord.Node) { woken.Add(1) },
	})))
	require.NoError(t, err)
	defer client.Close()
	line := mutex.New(client, "crowd")
	first, err := line.Lock(ctx)
	require.NoError(t, err)

	var inside atomic.Int64
	var last coord.Token
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			h, err := line.Lock(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			if inside.Add(1) != 1 || h.Token() <= last {
				t.Error("two inside, or one out of turn")
			}
			last = h.Token()
			inside.Add(-1)
			if err := h.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	require.Eventually(t, func() bool { return waiting.Load() == int64(n) }, 5*time.Minute, 10*time.Millisecond)
	for before := -1; before != proxy.Requests(); time.Sleep(500 * time.Millisecond) { // until all watches are set
		before = proxy.Requests()
	}
	before := proxy.Requests()
	require.NoError(t, first.Release())
	all.Wait()
	return float64(proxy.Requests()-before) / float64(n), float64(woken.Load()) / float64(n)
}
