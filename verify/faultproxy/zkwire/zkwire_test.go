package zkwire_test

import (
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

const soon = 10 * time.Second

type silent struct{}

func (silent) Printf(string, ...any) {}

// connect returns a session through the proxy, and one straight to the server, which sees the truth.
func connect(t *testing.T) (through *zk.Conn, p *zkwire.Proxy, straight *zk.Conn) {
	server := servers.ZooKeeper(t, servers.Shared()).Member(0)
	p = zkwire.Start(t, server.Addr())
	return session(t, p.Addr()), p, session(t, server.Addr())
}

func session(t *testing.T, addr string) *zk.Conn {
	conn, events, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogger(silent{}))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	for deadline := time.After(soon); ; {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn
			}
		case <-deadline:
			t.Fatal("no session")
		}
	}
}

// node returns a path of the test's own, named after the port of its proxy, since the server is shared.
func node(p *zkwire.Proxy) string { return "/behind-" + strings.TrimPrefix(p.Addr(), "127.0.0.1:") }

// once gives its verdict on the first request of that operation, and lets all others pass.
func once(op zkwire.Op, v zkwire.Verdict, seen *atomic.Pointer[zkwire.Request]) func(zkwire.Request) zkwire.Verdict {
	return func(r zkwire.Request) zkwire.Verdict {
		if r.Op == op && seen.CompareAndSwap(nil, &r) {
			return v
		}
		return zkwire.Pass
	}
}

func create(conn *zk.Conn, path string) error {
	_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
	return err
}

func TestRequestsAreCountedByOperation(t *testing.T) {
	conn, p, _ := connect(t)
	p.Reset()
	require.NoError(t, create(conn, node(p)))
	_, _, err := conn.Get(node(p))
	require.NoError(t, err)
	_, _, err = conn.Children(node(p))
	require.NoError(t, err)
	_, err = conn.Multi(&zk.SetDataRequest{Path: node(p)}, &zk.DeleteRequest{Path: node(p), Version: -1})
	require.NoError(t, err)

	require.Equal(t, 1, p.Requests(zkwire.Create))
	require.Equal(t, 1, p.Requests(zkwire.GetData))
	require.Equal(t, 1, p.Requests(zkwire.GetChildren2))
	require.Equal(t, 1, p.Requests(zkwire.Multi))
	require.Equal(t, 4, p.Requests())
	require.Zero(t, p.Events())
}

func TestEventsAreCounted(t *testing.T) {
	conn, p, straight := connect(t)
	require.NoError(t, create(straight, node(p)))
	_, _, gone, err := conn.GetW(node(p))
	require.NoError(t, err)
	p.Reset()
	require.NoError(t, straight.Delete(node(p), -1))
	<-gone
	require.Equal(t, 1, p.Events())
	require.Zero(t, p.Requests())
}

func TestTheHookSeesOperationAndPath(t *testing.T) {
	conn, p, _ := connect(t)
	var created, multi atomic.Pointer[zkwire.Request]
	p.OnRequest(once(zkwire.Create, zkwire.Pass, &created))
	require.NoError(t, create(conn, node(p)))
	require.Equal(t, node(p), created.Load().Path)
	require.Equal(t, 1, created.Load().Conn)

	p.OnRequest(once(zkwire.Multi, zkwire.Pass, &multi))
	_, err := conn.Multi(&zk.DeleteRequest{Path: node(p), Version: -1})
	require.NoError(t, err)
	require.Equal(t, node(p), multi.Load().Path)
	require.Equal(t, "multi", multi.Load().Op.String())
}

func TestARequestDroppedBeforeItIsAppliedLeavesNothing(t *testing.T) {
	conn, p, straight := connect(t)
	var seen atomic.Pointer[zkwire.Request]
	p.OnRequest(once(zkwire.Create, zkwire.DropBeforeApply, &seen))
	require.Error(t, create(conn, node(p)))
	exists, _, err := straight.Exists(node(p))
	require.NoError(t, err)
	require.False(t, exists)
	require.Zero(t, p.Requests(zkwire.Create))
}

func TestARequestWhoseReplyIsDroppedWasApplied(t *testing.T) {
	conn, p, straight := connect(t)
	var seen atomic.Pointer[zkwire.Request]
	p.OnRequest(once(zkwire.Create, zkwire.DropReply, &seen))
	require.ErrorIs(t, create(conn, node(p)), zk.ErrConnectionClosed)
	exists, _, err := straight.Exists(node(p))
	require.NoError(t, err)
	require.True(t, exists)

	// The session comes back on a new connection, and all is well.
	_, _, err = conn.Get(node(p))
	require.NoError(t, err)
	require.Equal(t, 2, p.Accepted())
}

func TestAHeldReplyComesWhenItIsReleased(t *testing.T) {
	conn, p, straight := connect(t)
	release := make(chan struct{})
	var seen atomic.Pointer[zkwire.Request]
	p.OnRequest(once(zkwire.Create, zkwire.HoldReply(release), &seen))
	result := make(chan error, 1)
	go func() { result <- create(conn, node(p)) }()

	require.Eventually(t, func() bool {
		exists, _, err := straight.Exists(node(p))
		return err == nil && exists
	}, soon, 5*time.Millisecond)
	select {
	case err := <-result:
		t.Fatalf("the reply was not held: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	require.NoError(t, <-result)
}

func TestADelayedRequestIsAppliedLater(t *testing.T) {
	conn, p, _ := connect(t)
	var seen atomic.Pointer[zkwire.Request]
	p.OnRequest(once(zkwire.Create, zkwire.DelayRequest(200*time.Millisecond), &seen))
	began := time.Now()
	require.NoError(t, create(conn, node(p)))
	require.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond)
}

func TestTheNetworksFaultsWorkHereToo(t *testing.T) {
	conn, p, straight := connect(t)
	require.NoError(t, create(conn, node(p)))
	p.Stall(faultproxy.ToClient)
	deleted := make(chan error, 1)
	go func() { deleted <- conn.Delete(node(p), -1) }()
	require.Eventually(t, func() bool {
		exists, _, err := straight.Exists(node(p))
		return err == nil && !exists
	}, soon, 5*time.Millisecond)
	p.Heal()
	require.NoError(t, <-deleted)
}

func TestFourLettersPass(t *testing.T) {
	_, p, _ := connect(t)
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "srvr")
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(answer), "Mode: standalone")
}
