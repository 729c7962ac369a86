package etcd_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/etcd"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// snapshot saves what etcdctl snapshot save does, and returns a function that puts it back as etcd's manual says, so that no
// revision comes twice.
func snapshot(t *testing.T, m *servers.Member) (restore func()) {
	t.Helper()
	etcdutl := servers.Need(t, "etcdutl")
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	from, err := client.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	path, data := filepath.Join(t.TempDir(), "snapshot"), filepath.Join(m.Dir(), "data")
	to, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		m.Kill()
		if err := os.RemoveAll(data); err != nil {
			t.Fatal(err)
		}
		peer := "http://127.0.0.1:1" // it has none
		restore := exec.CommandContext(t.Context(), etcdutl, "snapshot", "restore", path, "--data-dir="+data, "--name="+m.Name(),
			"--initial-cluster="+m.Name()+"="+peer, "--initial-advertise-peer-urls="+peer, "--bump-revision=1000000", "--mark-compacted")
		if out, err := restore.CombinedOutput(); err != nil {
			t.Fatalf("etcdutl: %v\n%s", err, out)
		}
		m.Restart(t)
	}
}

// An operator puts a snapshot back with raised revisions, after all have let go. The snapshot knows a holder and a waiter of then,
// whose clients live: they hold up the others for some TTLs at most, nobody enters beside anybody, and tokens go on from where they were.
func TestASnapshotThatIsPutBackWithRaisedRevisions(t *testing.T) {
	m := servers.Etcd(t).Member(0)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var clients []*coord.Client
	connect := func() *mutex.Mutex {
		c, err := etcd.Connect(ctx, clientv3.Config{Endpoints: []string{m.Addr()}}, etcd.WithTTL(2*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		clients = append(clients, c)
		return mutex.New(c, "line")
	}
	var inside atomic.Int32
	var last atomic.Uint64
	enter := func(h *coord.Hold) {
		t.Helper()
		if inside.Add(1) > 1 {
			t.Error("two are inside")
		}
		if token := uint64(h.Token()); token <= last.Swap(token) {
			t.Errorf("token %d is no greater than one before", token)
		}
	}
	leave := func(h *coord.Hold) {
		t.Helper()
		inside.Add(-1)
		if err := h.Release(); err != nil {
			t.Errorf("release: %v", err)
		}
	}
	lock := func(by *mutex.Mutex) *coord.Hold {
		t.Helper()
		h, err := by.Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		enter(h)
		return h
	}
	holds, waits, later := connect(), connect(), connect()
	h := lock(holds)
	waiting := waits.LockChan(ctx)
	for nodes := 0; nodes < 2; {
		line, err := clients[0].Line(ctx, "line")
		if err != nil {
			t.Fatal(err)
		}
		nodes = len(line)
	}
	restore := snapshot(t, m)
	leave(h)
	r := <-waiting
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	enter(r.Hold)
	leave(r.Hold)
	for range 20 {
		leave(lock(later))
	}

	restore()
	newcomer := connect()
	all := make(chan struct{})
	for _, by := range []*mutex.Mutex{holds, waits, later, newcomer} {
		go func() {
			defer func() { all <- struct{}{} }()
			for range 5 {
				h, err := by.Lock(ctx)
				if err != nil {
					t.Errorf("after the snapshot was put back: %v", err)
					return
				}
				enter(h)
				time.Sleep(10 * time.Millisecond)
				leave(h)
			}
		}()
	}
	for range 4 {
		<-all
	}
	if token := last.Load(); token < 1000000 {
		t.Errorf("the revisions were not raised: the last token is %d", token)
	}
}
