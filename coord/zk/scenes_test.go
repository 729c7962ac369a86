package zk

import (
	"context"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/servers"
)

// patience is how long to wait for what must happen, however busy the machine.
const patience = 20 * time.Second

// scene is a link of a driver to a real server, with a session.
type scene struct {
	testing.TB
	*harness
	*wiring
	link *drivertest.Link
	sess *session
	ctx  context.Context
}

func playOn(t *testing.T, cluster *servers.Cluster, opts ...Option) *scene {
	s := &scene{TB: t, harness: newHarness(t, cluster)}
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	t.Cleanup(cancel)
	s.ctx = ctx
	s.link, s.wiring = s.harness.wire(t, opts...)
	s.sess = s.open(s.link)
	return s
}

func play(t *testing.T, opts ...Option) *scene {
	return playOn(t, servers.ZooKeeper(t, servers.Shared()), opts...)
}

func (s *scene) open(l *drivertest.Link) *session {
	s.Helper()
	ds, err := l.Open(s.ctx)
	require.NoError(s, err)
	return ds.(*session)
}

// another opens a session on a link of its own.
func (s *scene) another(opts ...Option) *session {
	s.Helper()
	l, _ := s.harness.wire(s, opts...)
	return s.open(l)
}

func entry(kind string) driver.Entry {
	return driver.Entry{Line: "a", Kind: kind, Owner: driver.Owner{Host: "h", PID: 1}}
}

// try returns an entry that joins only if nobody is in sight.
func try(e driver.Entry) driver.Entry {
	e.Free = func(ahead []driver.Node) bool { return len(ahead) == 0 }
	return e
}

func (s *scene) join(sess *session, kind string) (driver.Place, []driver.Node) {
	s.Helper()
	me, ahead, err := sess.Join(s.ctx, entry(kind))
	require.NoError(s, err)
	return me, ahead
}

func (s *scene) leave(me driver.Place, held bool) {
	s.Helper()
	require.NoError(s, me.Leave(s.ctx, held))
}

type woken struct {
	ahead []driver.Node
	err   error
}

func (s *scene) await(me driver.Place, wait ...driver.Node) <-chan woken {
	c := make(chan woken, 1)
	go func() {
		ahead, err := me.Await(s.ctx, wait)
		c <- woken{ahead, err}
	}()
	return c
}

func (s *scene) watch(me driver.Place) <-chan woken {
	c := make(chan woken, 1)
	go func() { c <- woken{err: me.Watch(s.ctx)} }()
	return c
}

func (s *scene) answer(c <-chan woken) woken {
	s.Helper()
	select {
	case w := <-c:
		return w
	case <-time.After(patience):
		s.Fatal("no answer")
		return woken{}
	}
}

// waitsOnFor fails unless the waiter, whatever woke it, finds that the head still holds. It may have been told only of a
// write, and then waits on.
func (s *scene) waitsOnFor(head, me driver.Place, waiter <-chan woken) {
	s.Helper()
	for {
		w := s.answer(waiter)
		require.NoError(s, w.err)
		require.NotEmpty(s, w.ahead, "the head still holds")
		if w.ahead[0].ID == head.Node().ID {
			return
		}
		waiter = s.await(me, w.ahead...)
	}
}

func (s *scene) raw(path string, acl []gozk.ACL) {
	s.Helper()
	_, err := s.admin.Create(path, nil, 0, acl)
	require.NoError(s, err)
}

// isToldOf waits until the session of the scene is sure to be told what becomes of a node.
func (s *scene) isToldOf(n driver.Place) {
	s.Helper()
	s.isToldOfPath(n.Node().ID)
}

func (s *scene) isToldOfPath(nodePath string) {
	s.Helper()
	require.Eventually(s, func() bool {
		s.sess.watches.mu.Lock()
		defer s.sess.watches.mu.Unlock()
		w := s.sess.watches.all[nodePath]
		return w != nil && w.settings[ofData].armed()
	}, patience, time.Millisecond)
}
