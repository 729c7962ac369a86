package zk

import (
	"net"
	"strings"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
	"github.com/turnwise/turnwise/verify/servers"
)

// liar is a server that grants each client this timeout, and then answers each request like this.
func liar(t *testing.T, timeout int, answer func(request []byte) []byte) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(patience))
				if _, err := zkwire.ReadFrame(c); err != nil {
					return
				}
				_, _ = c.Write(zkwire.Frame(0, timeout, int64(42), password, false))
				for {
					request, err := zkwire.ReadFrame(c)
					if err != nil {
						return
					}
					_, _ = c.Write(answer(request))
				}
			}()
		}
	}()
	return l.Addr().String()
}

// Nonsense from a server ends only the connection to it.
func TestAServerThatMakesNoSenseIsPassedOver(t *testing.T) {
	honest := servers.ZooKeeper(t, servers.Shared()).Addrs()[0]
	empty := func(request []byte) []byte {
		return append([]byte{0, 0, 0, 16}, append(request[:4:4], make([]byte, 12)...)...)
	}
	for name, addr := range map[string]string{
		"it grants a millisecond":       liar(t, 1, empty),
		"it grants less than nothing":   liar(t, -5, empty),
		"its answers are none":          liar(t, 10_000, func([]byte) []byte { return []byte{0, 0, 0, 3} }),
		"it answers what was not asked": liar(t, 10_000, func([]byte) []byte { return zkwire.Frame(12345, int64(1), 0) }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Connect(t.Context(), []string{addr, honest}, WithTTL(10*time.Second))
			require.NoError(t, err)
			defer c.Close()
			h, err := mutex.New(c, "passed over/"+strings.ReplaceAll(name, " ", "-")).Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, h.Release())
		})
	}
}

// If the service accepts nodes of several megabytes, a neighbour may put one into the line.
func TestALongNodeOfSomebodyElseIsShownWithoutItsData(t *testing.T) {
	s := playOn(t, servers.ZooKeeper(t, servers.JavaOptions("-Djute.maxbuffer=8000000")))
	first, _ := s.join(s.sess, "lock")
	long := contender{guid: newGUID(), kind: "lock"}.prefix()
	// The library sends no more than a megabyte and a half.
	_, err := s.admin.Create(s.path("a")+"/"+long, make([]byte, 1_400_000), gozk.FlagSequence, gozk.WorldACL(gozk.PermAll))
	require.NoError(t, err)
	nodes, err := s.link.Line(s.ctx, "a")
	require.NoError(t, err)
	require.Len(t, nodes, 2)
	require.Equal(t, first.Node().ID, nodes[0].ID)
	require.Empty(t, nodes[1].Data)
	s.leave(first, true)
	n, err := drivertest.FirstNode(s.ctx, s.link, "a", nil)
	require.NoError(t, err)
	require.Equal(t, nodes[1], n)
	require.NoError(t, s.link.Remove(s.ctx, n))
}
