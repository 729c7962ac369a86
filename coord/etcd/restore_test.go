package etcd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/servers"
)

// backUp copies a member's data while it is stopped, and returns a function that puts them back.
func backUp(t *testing.T, m *servers.Member) (restore func()) {
	t.Helper()
	data, backup := filepath.Join(m.Dir(), "data"), filepath.Join(t.TempDir(), "backup")
	m.Kill()
	if err := os.CopyFS(backup, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	m.Restart(t)
	return func() {
		t.Helper()
		m.Kill()
		if err := errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(backup))); err != nil {
			t.Fatal(err)
		}
		m.Restart(t)
	}
}

func putMany(t *testing.T, root *clientv3.Client, n int) {
	t.Helper()
	for i := range n {
		if _, err := root.Put(within(t, 20*time.Second), "filler", strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
}

// While the client is cut off, a backup is put back that knows an earlier write of the session's key, and others make up for
// the revisions that are lost. (Joins asked 2,353 times a second, for ever.)
func TestABackupThatOthersHaveMadeUpForEndsTheSession(t *testing.T) {
	cluster := servers.Etcd(t)
	root := direct(t, cluster)
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l, WithTTL(time.Minute))
	opened := s.epoch.rev.Load()
	restore := backUp(t, cluster.Member(0))
	if err := s.moveEpoch(within(t, 20*time.Second), opened); err != nil {
		t.Fatal(err)
	}
	heal := l.cut()
	restore()
	putMany(t, root, 20)
	var joins atomic.Int64
	see := func(_ string, req any) {
		if txn, ok := req.(*pb.TxnRequest); ok && isWrite(txn) {
			joins.Add(1)
		}
	}
	l.onSend.Store(&see)
	heal()
	_, _, err := s.Join(within(t, 5*time.Second), entry("made up", "lock"))
	if n := joins.Load(); n > 20 {
		t.Errorf("a join asked %d times", n)
	}
	if !errors.Is(err, driver.ErrSessionEnded) || !errors.Is(s.life.Why(), errWentBack) {
		t.Errorf("the join says: %v; the session: %v", err, s.life.Why())
	}
}

// Somebody waits for news of a line while an older backup is put back. What happens then has lower revisions than what was
// read before.
func TestNewsAfterABackupIsHeard(t *testing.T) {
	cluster := servers.Etcd(t)
	root := direct(t, cluster)
	d := connectLink(t, cluster.Addrs()...).service(t)
	key := d.keys.line("news") + "lock/1234-1"
	if _, err := root.Put(within(t, 20*time.Second), key, ""); err != nil {
		t.Fatal(err)
	}
	restore := backUp(t, cluster.Member(0))
	putMany(t, root, 200)
	first, err := drivertest.FirstNode(within(t, 20*time.Second), d, "news", nil)
	if err != nil || first.ID == "" {
		t.Fatalf("the first is %v, %v", first, err)
	}
	changed := make(chan driver.Node, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for {
			n, err := drivertest.FirstNode(ctx, d, "news", &first)
			if err == nil || ctx.Err() != nil {
				changed <- n
				return
			}
		}
	}()
	time.Sleep(200 * time.Millisecond)
	restore()
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) { // until it listens again
		d.watches.mu.Lock()
		w := d.watches.keys[span{key: key}]
		listens := w != nil && w.opened > 0 && w.opened < int64(first.Token)+100
		d.watches.mu.Unlock()
		if listens {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("it does not listen again")
		}
	}
	time.Sleep(500 * time.Millisecond) // it has read by now
	if _, err := root.Delete(within(t, 20*time.Second), key); err != nil {
		t.Fatal(err)
	}
	select {
	case n := <-changed:
		if n.ID != "" {
			t.Errorf("the first is %v", n)
		}
	case <-time.After(5 * time.Second):
		t.Error("the news is not heard")
	}
}

// The same, and the first thing that the session does is to write its key.
func TestAWriteOfTheSessionsKeyNoticesABackup(t *testing.T) {
	cluster := servers.Etcd(t)
	root := direct(t, cluster)
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l, WithTTL(time.Minute))
	restore := backUp(t, cluster.Member(0))
	if err := s.confirm(within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	heal := l.cut()
	restore()
	putMany(t, root, 20)
	for range 100 { // so no read is the first to notice
		l.fate(drivertest.LostBefore, func(_ string, req any) bool { _, read := req.(*pb.RangeRequest); return read })
	}
	heal()
	if err := s.confirm(within(t, 20*time.Second)); !errors.Is(err, driver.ErrSessionEnded) && !s.life.Over() {
		t.Errorf("the write says: %v", err)
	}
	if !errors.Is(s.life.Why(), errWentBack) {
		t.Errorf("the session: %v", s.life.Why())
	}
}

// A backup brings back the node of an earlier place of ours, at the key that the next join uses, and its token with it: older than one
// that we have had since. (The next join took it for its own.)
func TestANodeFromBeforeTheJoinIsNotItsOwn(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	root := direct(t, cluster)
	s := open(t, connectLink(t, cluster.Addrs()...))
	e := entry("back again", "lock")
	first, _ := join(t, s, e)
	key, _, _ := parseID(first.Node().ID)
	got, err := root.Get(within(t, 10*time.Second), key)
	if err != nil || len(got.Kvs) != 1 {
		t.Fatal(got, err)
	}
	leave(t, first, true)
	back, err := root.Put(within(t, 10*time.Second), key, string(got.Kvs[0].Value), clientv3.WithLease(s.lease))
	if err != nil {
		t.Fatal(err)
	}
	other, _ := join(t, s, entry("another line", "lock")) // so the session is told of that revision
	leave(t, other, true)
	again, ahead := join(t, s, e)
	if token := again.Node().Token; len(ahead) > 0 || token <= driver.Token(back.Header.Revision) {
		t.Errorf("token %d, and %v ahead: the node of token %d was taken for the new one", token, ahead, driver.Token(back.Header.Revision))
	}
	leave(t, again, true)
	stays(t, root, "back again", 0, 0)
}

// Somebody who stood ahead had gone, and those behind know it. A backup brings him back, and others make up for the revisions. His
// client may have been cut off all that time, and go on; so whoever comes next waits for him. (A writer had entered ahead of a reader;
// found by the simulation.)
func TestWhoIsBroughtBackAheadIsWaitedFor(t *testing.T) {
	t.Run("by one who saw him", func(t *testing.T) {
		r := newRevenant(t)
		r.comes()
		first, _ := join(t, r.s, entry("line", "lock"))
		second, ahead := join(t, r.s, entry("line", "lock"))
		r.goes(first)
		entered := r.waits(second, ahead)
		r.isBroughtBack()
		leave(t, first, true)
		r.isAheadOf(<-entered)
	})
	t.Run("by one who saw that he had gone", func(t *testing.T) {
		r := newRevenant(t)
		first, _ := join(t, r.s, entry("line", "lock"))
		r.comes() // between the two
		second, _ := join(t, r.s, entry("line", "lock"))
		r.goes(first)
		r.seenBy(second, 1)
		entered := r.waits(second, []driver.Node{first.Node()})
		r.isBroughtBack()
		r.seenBy(first, 0)
		leave(t, first, true)
		r.isAheadOf(<-entered)
	})
	t.Run("by one who comes later", func(t *testing.T) {
		r := newRevenant(t)
		r.comes()
		first, _ := join(t, r.s, entry("line", "lock"))
		second, _ := join(t, r.s, entry("line", "lock"))
		r.goes(first)
		r.isBroughtBack()
		leave(t, second, false)
		later, ahead := join(t, r.s, entry("line", "lock"))
		entered := r.waits(later, ahead)
		leave(t, first, true)
		r.isAheadOf(<-entered)
	})
	t.Run("by one who was told before that it is his turn", func(t *testing.T) {
		r := newRevenant(t)
		r.comes()
		first, _ := join(t, r.s, entry("line", "lock"))
		second, _ := join(t, r.s, entry("line", "lock"))
		r.goes(first)
		r.seenBy(second, 1)
		entered := r.waits(second, []driver.Node{first.Node()})
		for range maxLooks { // he looks at his own node when all is over
			if err := r.s.looks.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		leave(t, first, true)
		time.Sleep(200 * time.Millisecond)
		r.isBroughtBack()
		for range maxLooks {
			r.s.looks.exit()
		}
		found := <-entered
		if len(found) == 1 && keyOf(&found[0]) == first.(*place).key { // it was brought back as well, and is taken away soon
			return
		}
		r.isAheadOf(found)
	})
}

// revenant is somebody in "line" who goes after a backup was made, which is put back later, and the session of who stands behind.
type revenant struct {
	t       *testing.T
	root    *clientv3.Client // beside the link
	l       *link
	s       *session
	member  *servers.Member
	lease   clientv3.LeaseID
	key     string
	restore func()
}

func newRevenant(t *testing.T) *revenant {
	cluster := servers.Etcd(t)
	r := &revenant{t: t, root: direct(t, cluster), l: connectLink(t, cluster.Addrs()...), member: cluster.Member(0)}
	r.s = open(t, r.l, WithTTL(time.Minute))
	lease, err := r.root.Grant(within(t, 10*time.Second), 600)
	if err != nil {
		t.Fatal(err)
	}
	r.lease, r.key = lease.ID, r.s.d.keys.contender("line", "lock", lease.ID, 1)
	return r
}

func (r *revenant) comes() {
	r.t.Helper()
	if _, err := r.root.Put(within(r.t, 10*time.Second), r.key, "", clientv3.WithLease(r.lease)); err != nil {
		r.t.Fatal(err)
	}
}

// goes has him leave, when the backup is made, and the one at the head of our session see that he has gone.
func (r *revenant) goes(first driver.Place) {
	r.t.Helper()
	r.restore = backUp(r.t, r.member)
	if _, err := r.root.Delete(within(r.t, 20*time.Second), r.key); err != nil {
		r.t.Fatal(err)
	}
	listens(r.t, r.s, 0)
	r.seenBy(first, 0)
}

// seenBy has somebody of our session look, and find so many ahead.
func (r *revenant) seenBy(p driver.Place, n int) {
	r.t.Helper()
	if ahead, _, err := p.(*place).look(within(r.t, 20*time.Second), 0); err != nil || len(ahead) != n {
		r.t.Fatal(ahead, err)
	}
}

// waits returns when somebody listens, and tells later who is ahead of him when he is let in, or is to wait again.
func (r *revenant) waits(p driver.Place, ahead []driver.Node) <-chan []driver.Node {
	entered := make(chan []driver.Node, 1)
	go func() {
		ahead, err := p.Await(within(r.t, time.Minute), ahead)
		if err != nil {
			r.t.Error(err)
		}
		entered <- ahead
	}()
	time.Sleep(200 * time.Millisecond) // it listens
	return entered
}

// isBroughtBack puts the backup back while our session is cut off, and has others make up for the revisions.
func (r *revenant) isBroughtBack() {
	r.t.Helper()
	before := listens(r.t, r.s, 0)
	heal := r.l.cut()
	r.restore()
	putMany(r.t, r.root, 200)
	heal()
	listens(r.t, r.s, before)
}

func (r *revenant) isAheadOf(found []driver.Node) {
	r.t.Helper()
	if len(found) != 1 || keyOf(&found[0]) != r.key {
		r.t.Errorf("%v is ahead, not %s", found, r.key)
	}
}

// listens waits until the session listens in a later era, and returns which.
func listens(t *testing.T, s *session, after int) (era int) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		s.watches.mu.Lock()
		live, era := s.watches.live, s.watches.eras
		s.watches.mu.Unlock()
		if live && era > after {
			return era
		}
		if time.Now().After(limit) {
			t.Fatal("it does not listen")
		}
	}
}
