package zk

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// The name is one that only the other end of a tunnel knows.
func TestATunnelLeadsToTheService(t *testing.T) {
	m := servers.ZooKeeper(t, servers.Shared()).Member(0)
	var dials atomic.Int64
	var latest atomic.Pointer[net.Conn]
	tunnel := func(ctx context.Context, network, address string) (net.Conn, error) {
		if network != "tcp" || address != "zk1.behind.invalid:2181" {
			t.Errorf("asked for %s %s", network, address)
		}
		dials.Add(1)
		c, err := new(net.Dialer).DialContext(ctx, network, m.Addr())
		if err == nil {
			latest.Store(&c)
		}
		return c, err
	}
	c, err := Connect(t.Context(), []string{"zk1.behind.invalid"}, WithDialer(tunnel), WithRoot("/tunnel"))
	require.NoError(t, err)
	defer c.Close()
	h, err := mutex.New(c, "line").Lock(t.Context())
	require.NoError(t, err)
	(*latest.Load()).Close()
	nodes, err := c.Line(t.Context(), "line")
	require.NoError(t, err, "through the tunnel again")
	require.Len(t, nodes, 1)
	require.EqualValues(t, 2, dials.Load())
	require.NoError(t, h.Release())
}

func TestATunnelThatLeadsNowhereSaysSo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := Connect(ctx, []string{"zk1"}, WithDialer(func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("the tunnel is closed")
	}))
	require.ErrorIs(t, err, coord.ErrUnavailable)
	require.ErrorContains(t, err, "the tunnel is closed")

	began := time.Now()
	ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err = Connect(ctx, []string{"zk1"}, WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	require.ErrorIs(t, err, coord.ErrUnavailable)
	require.Less(t, time.Since(began), 10*time.Second)
}
