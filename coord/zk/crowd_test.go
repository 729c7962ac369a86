package zk

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/faultproxy/zkwire"
	"github.com/turnwise/turnwise/internal/servers"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// Two thousand of one client wait; each is served once, in order, and a release wakes one of them.
func TestTwoThousandWaitersOfOneClient(t *testing.T) {
	proxy := zkwire.Start(t, servers.ZooKeeper(t, servers.Shared()).Addrs()[0])
	few, _ := drain(t, proxy, 20)
	many, wakes := drain(t, proxy, 2000)
	t.Logf("requests a hand-off: %.2f with 20 waiters, %.2f with 2,000; wake-ups a grant: %.3f", few, many, wakes)
	require.LessOrEqual(t, wakes, 1.1)
	require.LessOrEqual(t, many, few*1.3)
}

// drain lets n wait for a mutex and counts what it takes to serve them all.
func drain(t *testing.T, proxy *zkwire.Proxy, n int) (requests, wakes float64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var waiting, woken atomic.Int64
	client, err := Connect(ctx, []string{proxy.Addr()}, WithSessionTimeout(time.Minute), WithClient(coord.WithObserver(&coord.Observer{
		Waiting: func(coord.Node, int) { waiting.Add(1) },
		Woken:   func(coord.Node) { woken.Add(1) },
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
	require.Eventually(t, func() bool { return waiting.Load() == int64(n) }, time.Minute, 10*time.Millisecond)
	time.Sleep(500 * time.Millisecond) // all watches are set
	before := proxy.Requests()
	require.NoError(t, first.Release())
	all.Wait()
	return float64(proxy.Requests()-before) / float64(n), float64(woken.Load()) / float64(n)
}
