//go:build unix

package servers_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/verify/servers"
)

// modeOf is what a member says of itself: leader, follower, or nothing while it does not serve.
func modeOf(t *testing.T, m *servers.Member) string {
	text, err := m.FourLetter(t.Context(), "srvr")
	if err != nil {
		return ""
	}
	_, mode, _ := strings.Cut(text, "Mode: ")
	mode, _, _ = strings.Cut(mode, "\n")
	return mode
}

func TestAnIsolatedLeaderIsReplacedAndComesBackAsAFollower(t *testing.T) {
	c := servers.ZooKeeper(t, servers.Members(3), servers.Links())
	old := c.Leader(t)
	others := slices.DeleteFunc(c.Members(), func(m *servers.Member) bool { return m == old })
	heal := c.Isolate(old)
	require.Eventually(t, func() bool {
		return modeOf(t, others[0]) == "leader" || modeOf(t, others[1]) == "leader"
	}, 30*time.Second, 20*time.Millisecond, "the others choose a leader among them")
	require.Eventually(t, func() bool { return modeOf(t, old) == "" }, 30*time.Second, 20*time.Millisecond, "the old one stops")
	heal()
	require.Eventually(t, func() bool { return modeOf(t, old) == "follower" }, 30*time.Second, 20*time.Millisecond)
}

func TestAnIsolatedLeaderOfAnEtcdIsReplaced(t *testing.T) {
	c := servers.Etcd(t, servers.Members(3), servers.Links())
	for range 2 {
		old := c.Leader(t)
		heal := c.Isolate(old)
		leads := func(m *servers.Member) bool {
			numbers, err := m.Metrics(t.Context())
			return err == nil && numbers.Sum("etcd_server_is_leader") == 1
		}
		require.Eventually(t, func() bool {
			return slices.ContainsFunc(c.Members(), func(m *servers.Member) bool { return m != old && leads(m) })
		}, 30*time.Second, 20*time.Millisecond, "the others choose a leader among them")
		require.Eventually(t, func() bool { return !leads(old) }, 30*time.Second, 20*time.Millisecond, "the old one stops")
		heal()
		require.NoError(t, c.Ready(t.Context()))
	}
}

func TestAFollowerCutOffFromTheLeaderGoesOnAnsweringForAWhile(t *testing.T) {
	c := servers.ZooKeeper(t, servers.Members(3), servers.Links(), servers.Config("syncLimit=50")) // 5 s
	leader := c.Leader(t)
	follower := c.Member(0)
	if follower == leader {
		follower = c.Member(1)
	}
	heal := c.Isolate(follower, leader)
	defer heal()
	time.Sleep(200 * time.Millisecond)
	require.Equal(t, "follower", modeOf(t, follower), "it does not know yet")
	require.Eventually(t, func() bool { return modeOf(t, follower) == "" }, 30*time.Second, 20*time.Millisecond)
}

// A write at a follower is sent to the leader, and the answer comes back: each way can be held while the other is open.
func TestWhatOneMemberSaysToAnotherIsHeldOneWay(t *testing.T) {
	c := servers.ZooKeeper(t, servers.Members(3), servers.Links(), servers.Config("syncLimit=300"))
	leader := c.Leader(t)
	follower := c.Member(0)
	if follower == leader {
		follower = c.Member(1)
	}
	there, here := client(t, follower), client(t, leader)
	_, err := there.Sync("/") // its session is open: to open one needs both ways
	require.NoError(t, err)
	made := func(path string) bool {
		_, err := here.Sync(path)
		require.NoError(t, err)
		yes, _, err := here.Exists(path)
		require.NoError(t, err)
		return yes
	}
	for path, w := range map[string]struct {
		from, to *servers.Member
		applied  bool
	}{
		"/requests": {follower, leader, false},
		"/answers":  {leader, follower, true},
	} {
		release := c.Hold(w.from, w.to)
		answered := make(chan error, 1)
		go func() {
			_, err := there.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
			answered <- err
		}()
		if w.applied {
			require.Eventually(t, func() bool { return made(path) }, 20*time.Second, 20*time.Millisecond)
		}
		time.Sleep(500 * time.Millisecond)
		require.Equal(t, w.applied, made(path))
		require.Empty(t, answered)
		release()
		require.NoError(t, <-answered)
		require.True(t, made(path))
	}
}

func client(t *testing.T, m *servers.Member) *zk.Conn {
	conn, events, err := zk.Connect([]string{m.Addr()}, 30*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events { // until its goroutines have ended
		}
	})
	return conn
}
