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
	for _, waits := range []string{sawHim, sawHimGone, comesLater, isTold} {
		t.Run("by one who "+waits, func(t *testing.T) { broughtBack(t, waits) })
	}
}

const (
	sawHim     = "saw him"
	sawHimGone = "saw that he had gone"
	comesLater = "comes later"
	isTold     = "was told before that it is his turn"
)

func broughtBack(t *testing.T, waits string) {
	cluster := servers.Etcd(t)
	root := direct(t, cluster)
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l, WithTTL(time.Minute))
	lease, err := root.Grant(within(t, 10*time.Second), 600)
	if err != nil {
		t.Fatal(err)
	}
	key := s.d.keys.contender("line", "lock", lease.ID, 1)
	comes := func() {
		if _, err := root.Put(within(t, 10*time.Second), key, "", clientv3.WithLease(lease.ID)); err != nil {
			t.Fatal(err)
		}
	}
	sees := func(p driver.Place, n int) {
		if ahead, _, err := p.(*place).look(within(t, 20*time.Second), 0); err != nil || len(ahead) != n {
			t.Fatal(ahead, err)
		}
	}
	if waits != sawHimGone {
		comes()
	}
	first, _ := join(t, s, entry("line", "lock"))
	if waits == sawHimGone { // between the two
		comes()
	}
	second, ahead := join(t, s, entry("line", "lock"))
	restore := backUp(t, cluster.Member(0))
	if _, err := root.Delete(within(t, 20*time.Second), key); err != nil {
		t.Fatal(err)
	}
	listens(t, s, 0)
	sees(first, 0)
	if waits == sawHimGone || waits == isTold {
		sees(second, 1)
		ahead = []driver.Node{first.Node()}
	}
	entered := make(chan []driver.Node, 1)
	wait := func() {
		ahead, err := second.Await(within(t, time.Minute), ahead)
		if err != nil {
			t.Error(err)
		}
		entered <- ahead
	}
	if waits != comesLater {
		go wait()
		time.Sleep(200 * time.Millisecond) // it listens
	}
	before := listens(t, s, 0)
	if waits == isTold { // and looks at his own node when all is over
		for range maxLooks {
			if err := s.looks.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		leave(t, first, true)
		time.Sleep(200 * time.Millisecond)
	}
	heal := l.cut()
	restore()
	putMany(t, root, 200)
	heal()
	listens(t, s, before)
	switch waits {
	case sawHimGone:
		sees(first, 0)
	case comesLater:
		leave(t, second, false)
		second, ahead = join(t, s, entry("line", "lock"))
		go wait()
		time.Sleep(200 * time.Millisecond)
	case isTold:
		for range maxLooks {
			s.looks.exit()
		}
	}
	if waits != isTold {
		leave(t, first, true)
	}
	found := <-entered
	if waits == isTold && len(found) == 1 && keyOf(&found[0]) == first.(*place).key { // it was brought back as well, and is taken away soon
		return
	}
	if len(found) != 1 || keyOf(&found[0]) != key {
		t.Errorf("%v is ahead, not %s", found, key)
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
