package zk

import (
	"sync"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// Each of many who join a long line at once is answered with a list of it. What is under way takes longer than a server
// may be silent; but it is not silent.
func TestManyWhoJoinALongLineDoNotBreakTheConnection(t *testing.T) {
	const ahead, joins, ttl = 20_000, 200, 2 * time.Second
	s := play(t)
	dir := s.path("a")
	s.mkdir(t, dir)
	for first := 0; first < ahead; first += 1000 {
		var ops []any
		for i := first; i < first+1000; i++ {
			c := contender{guid: newGUID(), kind: "lock", seq: int32(i)}
			ops = append(ops, &gozk.CreateRequest{Path: dir + "/" + c.name(), Acl: gozk.WorldACL(gozk.PermAll)})
		}
		_, err := s.admin.Multi(ops...)
		require.NoError(t, err)
	}
	d, err := newService(s.cluster.Addrs(), []Option{WithTTL(ttl), WithRoot(s.root)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close(s.ctx) })
	ds, err := d.Open(s.ctx)
	require.NoError(t, err)
	sess := ds.(*session)
	e := entry("lock")
	e.Line = "held"
	_, _, err = sess.Join(s.ctx, e)
	require.NoError(t, err)
	connection := sess.latest()

	start := time.Now()
	late := time.Duration(0)
	over := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
				late = max(late, time.Since(sess.Deadline()))
			}
		}
	})
	var joined sync.WaitGroup
	for range joins {
		joined.Go(func() {
			_, ahead, err := sess.Join(s.ctx, entry("lock"))
			if err != nil || len(ahead) != 1 {
				t.Error(ahead, err)
			}
		})
	}
	joined.Wait()
	close(over)
	all.Wait()
	t.Logf("%d joined in %v; a hold would have been lost for %v", joins, time.Since(start).Round(time.Millisecond), late)
	require.Same(t, connection, sess.latest(), "the connection was given up though it delivered")
	require.Zero(t, late, "holds were lost")
}
