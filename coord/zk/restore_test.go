package zk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sync"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
	"github.com/turnwise/turnwise/verify/servers"
)

// In a backup, the session of a running client may live on with nodes that left long ago, and as long as the client renews
// it, they block their lines.
func TestABackupThatIsRestoredBlocksNoLine(t *testing.T) {
	const ttl = 4 * time.Second // it has to survive until the service is back
	for name, writes := range map[string]struct{ lost, since int }{
		"the client has seen more than the service has": {lost: 1000},
		"the service has gone on since":                 {since: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := servers.ZooKeeper(t)
			m := c.Member(0)
			proxy := zkwire.Start(t, m.Addr())
			client, err := Connect(t.Context(), []string{proxy.Addr()}, WithTTL(ttl))
			require.NoError(t, err)
			t.Cleanup(func() { _ = client.Close() })
			hold, err := mutex.New(client, "line").Lock(t.Context())
			require.NoError(t, err)
			restore := backUp(t, m)

			_ = hold.Release()
			write(t, m, writes.lost)
			require.Eventually(t, func() bool {
				nodes, err := client.Line(t.Context(), "line") // so it has seen what was written
				return err == nil && len(nodes) == 0
			}, patience, 10*time.Millisecond)
			proxy.Refuse()
			restore()
			write(t, m, writes.since)
			proxy.Heal()

			start := time.Now()
			select {
			case r := <-mutex.New(connectTo(t, m, ttl), "line").LockChan(t.Context()):
				require.NoError(t, r.Err)
				t.Logf("the next one got its turn after %v", time.Since(start).Round(time.Millisecond))
				require.NoError(t, r.Hold.Release())
			case <-time.After(3*ttl + 10*time.Second):
				t.Fatal("the line is blocked, and nobody holds")
			}
			hold, err = mutex.New(client, "line").Lock(t.Context())
			require.NoError(t, err, "with another session")
			require.NoError(t, hold.Release())
		})
	}
}

// Two of three servers come back with an earlier disk, and the third one, which knew more, follows them.
func TestAMajorityThatIsPutBackBlocksNoLine(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second // it has to survive until the service is back
	c := servers.ZooKeeper(t, servers.Members(3))
	all := c.Members()
	before := connectTo(t, all[0], ttl, all[1], all[2])
	left, err := mutex.New(before, "line").Lock(t.Context())
	require.NoError(t, err)
	back := all[:2]
	backups := []string{t.TempDir(), t.TempDir()}
	data := func(m *servers.Member) string { return filepath.Join(m.Dir(), "data") }
	for i, m := range back {
		m.Terminate()
		require.NoError(t, os.CopyFS(backups[i], os.DirFS(data(m))))
		require.NoError(t, m.Start(t.Context()))
	}
	require.NoError(t, left.Release())
	after := connectTo(t, all[2], ttl, all[0], all[1])
	holder, err := mutex.New(after, "line").Lock(t.Context())
	require.NoError(t, err)

	for _, m := range all {
		m.Kill()
	}
	for i, m := range back {
		require.NoError(t, os.RemoveAll(data(m)))
		require.NoError(t, os.CopyFS(data(m), os.DirFS(backups[i])))
	}
	require.NoError(t, all[0].Launch())
	require.NoError(t, all[1].Start(t.Context())) // and lead, before somebody comes who knows more
	require.NoError(t, all[2].Start(t.Context()))
	for _, client := range []*coord.Client{before, after, connectTo(t, all[1], ttl)} {
		select {
		case r := <-mutex.New(client, "line").LockChan(t.Context()):
			require.NoError(t, r.Err)
			select {
			case <-holder.Context().Done():
			case <-time.After(ttl):
				t.Error("a holder goes on of whom the service knows nothing")
			}
			require.NoError(t, r.Hold.Release())
		case <-time.After(3*ttl + 20*time.Second):
			nodes, err := client.Line(t.Context(), "line")
			t.Fatal("the line is blocked:", nodes, err)
		}
	}
}

// write has the service make that many transactions.
func write(t *testing.T, m *servers.Member, n int) {
	if n == 0 {
		return
	}
	admin := adminConn(t, []string{m.Addr()})
	defer admin.Close()
	var all sync.WaitGroup
	for w := range 50 { // each writer waits for its answers
		all.Go(func() {
			for i := w; i < n; i += 50 {
				if _, err := admin.Create(fmt.Sprintf("/written%d", i), nil, 0, gozk.WorldACL(gozk.PermAll)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// A line that goes away takes its waiters along. ZooKeeper removes a directory soon after it has become empty, so a waiter
// may find neither its node nor the line.
func TestWhoWaitsInALineThatGoesAwayIsRemoved(t *testing.T) {
	s := play(t)
	other := s.another()
	first, _ := s.join(other, "lock")
	second, _ := s.join(other, "lock")
	me, ahead := s.join(s.sess, "lock")
	waiter := s.await(me, ahead[len(ahead)-1])
	s.isToldOf(second)
	heal := s.freeze(drivertest.Requests)
	s.leave(second, false) // so the waiter looks at the line
	require.Eventually(t, func() bool { return s.sess.latest().Waiting(time.Now()) > 0 }, patience, time.Millisecond)
	for _, nodePath := range []string{first.Node().ID, me.Node().ID, path.Dir(me.Node().ID)} {
		err := s.admin.Delete(nodePath, -1)
		require.True(t, err == nil || errors.Is(err, gozk.ErrNoNode), err)
	}
	heal()
	require.ErrorIs(t, s.answer(waiter).err, driver.ErrRemoved)
}

// backUp copies a member's data while it is stopped, and returns a function that puts them back.
func backUp(t *testing.T, m *servers.Member) (restore func()) {
	t.Helper()
	data, backup := filepath.Join(m.Dir(), "data"), t.TempDir()
	m.Terminate()
	require.NoError(t, os.CopyFS(backup, os.DirFS(data)))
	require.NoError(t, m.Start(t.Context()))
	return func() {
		t.Helper()
		m.Terminate()
		require.NoError(t, os.RemoveAll(data))
		require.NoError(t, os.CopyFS(data, os.DirFS(backup)))
		require.NoError(t, m.Start(t.Context()))
	}
}

// see looks who stands ahead of a place.
func see(t *testing.T, p driver.Place) []driver.Node {
	t.Helper()
	a := p.(*place).awaiting()
	defer a.quit()
	ahead, err := a.list(t.Context())
	require.NoError(t, err)
	return ahead
}

// Somebody who stood ahead had gone, and those behind know it. A backup brings him back, and the service goes on from there. His client
// may have been cut off all that time, and go on; so whoever comes next waits for him.
func TestWhoIsBroughtBackAheadIsWaitedFor(t *testing.T) {
	for _, waits := range []string{sawHimGone, comesLater} {
		t.Run("by one who "+waits, func(t *testing.T) {
			t.Parallel()
			broughtBack(t, waits)
		})
	}
}

const (
	sawHimGone = "saw that he had gone"
	comesLater = "comes later"
)

func broughtBack(t *testing.T, waits string) {
	const ttl = 6 * time.Second // it has to survive until the service is back
	c := servers.ZooKeeper(t)
	m := c.Member(0)
	proxy := zkwire.Start(t, m.Addr())
	s, gone := openAt(t, proxy.Addr(), ttl), openAt(t, m.Addr(), 40*time.Second)
	join := func(s *session) (driver.Place, []driver.Node) {
		p, ahead, err := s.Join(t.Context(), driver.Entry{Line: "line", Kind: "lock"})
		require.NoError(t, err)
		return p, ahead
	}
	var back driver.Place
	if waits == comesLater {
		back, _ = join(gone)
	}
	first, _ := join(s)
	if waits == sawHimGone { // between the two
		back, _ = join(gone)
	}
	second, _ := join(s)
	restore := backUp(t, m)

	require.NoError(t, gone.Close(t.Context()))
	require.Empty(t, see(t, first))
	ahead := see(t, second)
	require.Len(t, ahead, 1)
	entered := make(chan []driver.Node, 1)
	wait := func() {
		ahead, err := second.Await(t.Context(), ahead)
		if err != nil {
			t.Error(err)
		}
		entered <- ahead
	}
	if waits == sawHimGone {
		go wait()
		time.Sleep(200 * time.Millisecond) // it listens
	}
	proxy.Refuse()
	restore()
	write(t, m, 1000)
	proxy.Heal()
	if waits == comesLater {
		require.NoError(t, second.Leave(t.Context(), false))
		second, ahead = join(s)
		go wait()
		time.Sleep(200 * time.Millisecond)
	}
	require.NoError(t, first.Leave(t.Context(), true))
	found := <-entered
	require.Len(t, found, 1)
	require.Equal(t, back.Node().ID, found[0].ID)
}

// A holder leaves, which is refused for now. A backup brings back somebody ahead of it, and a newcomer looks. When the holder has left at
// last, the newcomer looks again: the holder knew nothing of who was brought back.
func TestAHolderWhoLeftBeforeABackupHandsNothingOverAfterIt(t *testing.T) {
	t.Parallel()
	c := servers.ZooKeeper(t)
	m := c.Member(0)
	proxy := zkwire.Start(t, m.Addr())
	s, gone := openAt(t, proxy.Addr(), 6*time.Second), openAt(t, m.Addr(), 40*time.Second)
	join := func(s *session, kind string) (driver.Place, []driver.Node) {
		e := driver.Entry{Line: "line", Kind: kind}
		if kind == rules.Reader {
			e.Sight = driver.Sight{Ignore: []string{rules.Reader}}
		}
		p, ahead, err := s.Join(t.Context(), e)
		require.NoError(t, err)
		return p, ahead
	}
	back, _ := join(gone, rules.Writer)
	first, _ := join(s, rules.Writer)
	second, _ := join(s, rules.Reader)
	restore := backUp(t, m)
	require.NoError(t, gone.Close(t.Context()))
	require.Empty(t, see(t, first))
	ctx, cancel := context.WithCancel(t.Context())
	var waits sync.WaitGroup
	defer waits.Wait()
	defer cancel()
	ahead := see(t, second)
	waits.Go(func() { _, _ = second.Await(ctx, ahead) }) // so the session watches the holder's node
	time.Sleep(200 * time.Millisecond)

	mayLeave := func(may int32) {
		admin := adminConn(t, []string{m.Addr()})
		defer admin.Close()
		_, err := admin.SetACL(first.(*place).dir, gozk.WorldACL(gozk.PermAll&^gozk.PermDelete|may), -1)
		require.NoError(t, err)
	}
	mayLeave(0)
	soon, over := context.WithTimeout(t.Context(), 2*time.Second)
	defer over()
	require.Error(t, first.Leave(soon, true))
	proxy.Refuse()
	restore()
	write(t, m, 1000)
	mayLeave(0)
	proxy.Heal()
	third, behind := join(s, rules.Reader)
	entered := make(chan []driver.Node, 1)
	waits.Go(func() {
		ahead, err := third.Await(ctx, behind)
		if err != nil {
			t.Error(err)
		}
		entered <- ahead
	})
	time.Sleep(500 * time.Millisecond) // it listens
	mayLeave(gozk.PermDelete)
	found := <-entered
	require.Len(t, found, 1)
	require.Equal(t, back.Node().ID, found[0].ID)
}
