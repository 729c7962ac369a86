//go:build unix

package zk

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
	"github.com/turnwise/turnwise/verify/servers"
)

// A deed is something that a holder, or an operator, has the service do.
type deed func(ctx context.Context, s *straggling) error

func says(kind, data string) deed {
	return func(ctx context.Context, s *straggling) error { return s.me.Amend(ctx, kind, []byte(data)) }
}

func notes(memo string) deed {
	return func(ctx context.Context, s *straggling) error { return s.me.Remember(ctx, []byte(memo)) }
}

func notesNothing(ctx context.Context, s *straggling) error { return s.me.Remember(ctx, nil) }

func forgets(ctx context.Context, s *straggling) error { return s.driver.Forget(ctx, "a") }

// A server hands on a request whose connection has broken since, and the service applies it if the session has come back to
// that server meanwhile: it keeps the requests of a connection in order, not those of a session. Here that happens each time,
// for the server has one request to do before, and that one waits.
func TestAWriteThatArrivesLateUndoesNothing(t *testing.T) {
	c := servers.ZooKeeper(t, servers.Members(3), servers.Links(), servers.Tick(time.Second), servers.Config("syncLimit=30"),
		servers.JavaOptions("-Dzookeeper.request_throttle_max_requests=1", "-Dzookeeper.request_throttle_drop_stale=false"))
	for _, test := range []struct {
		name       string
		before     []deed
		late       deed
		after      []deed
		memo, data string
	}{
		{name: "data", late: says("W", "late"), after: []deed{says("W", "newer")}, data: "newer"},
		{name: "another kind", late: says("R", "late"), after: []deed{says("W", "newer")}, data: "newer"},
		{name: "a memo", before: []deed{notes("was")}, late: notes("late"), after: []deed{notes("newer")}, memo: "newer"},
		{name: "the first memo", before: []deed{notes("was"), notesNothing}, late: notes("late"), after: []deed{notesNothing}},
		{name: "a memo that went and came", before: []deed{notes("was")}, late: notes("late"), after: []deed{notesNothing, notes("newer")}, memo: "newer"},
		{name: "no memo", before: []deed{notes("was")}, late: notesNothing, after: []deed{notes("newer")}, memo: "newer"},
		{name: "no memo, by an operator", before: []deed{notes("was")}, late: forgets, after: []deed{notes("newer")}, memo: "newer"},
	} {
		for _, givenUp := range []bool{false, true} {
			name := test.name
			if givenUp {
				name += ", given up"
			} else if test.name == "another kind" {
				continue // it is another node then
			}
			t.Run(name, func(t *testing.T) {
				s := straggle(t, c)
				s.all(test.before)
				for tries := 1; !s.isLate(test.late, givenUp, test.after); tries++ {
					require.Less(t, tries, 3, "the server answers nobody, time and again")
					t.Log("the server answers nobody: again")
					s.mine.Restart(t)
					s = straggle(t, c)
					s.all(test.before)
				}
				s.isSo("W", test.data, test.memo)
				require.NoError(t, s.me.Leave(s.ctx, true))
			})
		}
	}
}

// straggling is a holder whose way to the service leads to one of two followers.
type straggling struct {
	testing.TB
	ctx                 context.Context
	cluster             *servers.Cluster
	leader, mine, other *servers.Member
	busy                *gozk.Conn // a client of mine
	way                 *zkwire.Proxy
	driver              *service
	me                  driver.Place
}

func straggle(t *testing.T, c *servers.Cluster) *straggling {
	s := &straggling{TB: t, cluster: c, leader: c.Leader(t)}
	followers := slices.DeleteFunc(c.Members(), func(m *servers.Member) bool { return m == s.leader })
	s.mine, s.other = followers[0], followers[1]
	s.busy = adminConn(t, []string{s.mine.Addr()})
	s.way = zkwire.Start(t, s.mine.Addr())
	h := newHarness(t, c)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	s.ctx = ctx
	d, err := newService([]string{s.way.Addr()}, []Option{WithTTL(4 * patience), WithRoot(h.root), WithLogger(drivertest.Logger(t))})
	require.NoError(t, err)
	s.driver = d
	t.Cleanup(func() { _ = d.Close(ctx) })
	sess, err := d.Open(ctx)
	require.NoError(t, err)
	s.me, _, err = sess.Join(ctx, entry("W"))
	require.NoError(t, err)
	return s
}

func (s *straggling) all(deeds []deed) {
	for _, w := range deeds {
		require.NoError(s, w(s.ctx, s))
	}
}

// aWhile is enough for a server to read what has been sent to it. If it were not, the test would pass for nothing.
const aWhile = 300 * time.Millisecond

// isLate has a write wait in one server, and those after it be answered by the other one. Then the session comes back, and
// the write goes on. If it has not been given up, it is tried at the other one first.
//
// It returns false if the server answers nobody any more. Once in a hundred times or so, if the machine is busy, it waits for a request
// that it counts as under way (Outstanding: 1 in srvr) while none is, and with that setting lets no other one pass.
func (s *straggling) isLate(late deed, givenUp bool, after []deed) bool {
	var once sync.Once
	sent := make(chan func(), 1)
	s.way.OnRequest(func(r zkwire.Request) zkwire.Verdict {
		if r.Op == zkwire.SetData || r.Op == zkwire.Delete || r.Op == zkwire.Multi {
			once.Do(func() {
				sent <- s.cluster.Hold(s.mine, s.leader)
				go func() { _, _ = s.busy.Sync("/") }()
				time.Sleep(aWhile)
			})
		}
		return zkwire.Pass
	})
	ctx, giveUp := context.WithCancel(s.ctx)
	defer giveUp()
	done := make(chan error, 1)
	go func() { done <- late(ctx, s) }()
	release := <-sent
	defer release()
	time.Sleep(2 * aWhile)
	if givenUp {
		giveUp()
		require.ErrorIs(s, <-done, context.Canceled)
	}
	s.way.Lead(s.other.Addr())
	if !givenUp {
		require.NoError(s, <-done)
	}
	s.all(after)

	came := s.way.Accepted()
	s.way.Lead(s.mine.Addr())
	require.Eventually(s, func() bool { return s.way.Accepted() > came }, patience, time.Millisecond)
	time.Sleep(aWhile)
	release()
	answered := make(chan error, 1)
	go func() { _, err := s.busy.Sync("/"); answered <- err }() // after the late one
	select {
	case err := <-answered:
		require.NoError(s, err)
		return true
	case <-time.After(patience / 2):
		return false
	}
}

// The next try finds another version than it names, which is the first one's doing.
func TestAWriteThatWasMadeWithoutAnAnswerIsMade(t *testing.T) {
	for name, test := range map[string]struct {
		before     []deed
		lost       deed
		memo, data string
	}{
		"data":                    {lost: says("W", "newer"), data: "newer"},
		"a memo":                  {before: []deed{notes("was")}, lost: notes("newer"), memo: "newer"},
		"the first memo":          {lost: notes("newer"), memo: "newer"},
		"no memo":                 {before: []deed{notes("was")}, lost: notesNothing},
		"no memo, by an operator": {before: []deed{notes("was")}, lost: forgets},
	} {
		t.Run(name, func(t *testing.T) {
			scene := play(t)
			s := &straggling{TB: t, ctx: scene.ctx, way: scene.proxies[0], driver: scene.link.Driver.(*service)}
			s.me, _ = scene.join(scene.sess, "W")
			s.all(test.before)
			var lost atomic.Bool
			s.way.OnRequest(func(r zkwire.Request) zkwire.Verdict {
				if (r.Op == zkwire.SetData || r.Op == zkwire.Multi) && lost.CompareAndSwap(false, true) {
					return zkwire.DropReply
				}
				return zkwire.Pass
			})
			require.NoError(t, test.lost(s.ctx, s))
			require.True(t, lost.Load())
			s.isSo("W", test.data, test.memo)
			s.all([]deed{says("W", "and"), notes("on")})
			s.isSo("W", "and", "on")
			s.all([]deed{forgets})
			scene.leave(s.me, true)
		})
	}
}

// isSo fails unless that is what the node says, and the memo.
func (s *straggling) isSo(kind, data, memo string) {
	s.Helper()
	got, err := s.driver.Memo(s.ctx, "a")
	require.NoError(s, err)
	require.Equal(s, memo, string(got))
	nodes, err := s.driver.Line(s.ctx, "a")
	require.NoError(s, err)
	require.Len(s, nodes, 1)
	require.Equal(s, kind, nodes[0].Kind)
	require.Equal(s, data, string(nodes[0].Data))
}
