package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/verify/servers"
)

func TestTheHistoryIsWhatTheServiceKnows(t *testing.T) {
	ctx := t.Context()
	ensemble := servers.ZooKeeper(t, servers.Members(3))
	leader := ensemble.Leader(t)
	followers := slices.DeleteFunc(ensemble.Members(), func(m *servers.Member) bool { return m == leader })
	create := func(conn *gozk.Conn, i int) error {
		_, err := conn.Create(fmt.Sprintf("/n%d", i), nil, 0, gozk.WorldACL(gozk.PermAll))
		return err
	}
	dial := func(m *servers.Member) *gozk.Conn {
		conn, _, err := gozk.Connect([]string{m.Addr()}, 4*time.Second, gozk.WithLogInfo(false), gozk.WithLogger(silent{}))
		require.NoError(t, err)
		t.Cleanup(conn.Close)
		return conn
	}
	alone := dial(leader)
	require.NoError(t, create(alone, 0))
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() { _ = create(alone, 1000+i) })
	}
	for _, m := range followers {
		all.Go(m.Kill)
	}
	time.Sleep(200 * time.Millisecond)
	leader.Kill()
	for _, m := range followers {
		require.NoError(t, m.Launch())
	}
	require.NoError(t, followers[0].Start(ctx))
	next := dial(followers[0])
	for i := 1; i < 20; i++ {
		require.Eventually(t, func() bool { return create(next, i) == nil }, 20*time.Second, 20*time.Millisecond)
	}
	leader.Restart(t)
	all.Wait() // what was not sent before is sent now
	names, _, err := next.Children("/")
	require.NoError(t, err)

	history, err := readTransactions(ensemble)
	require.NoError(t, err)
	created := 0
	for _, tx := range history {
		if strings.HasPrefix(tx.text, "create /n") {
			created++
		}
	}
	require.Equal(t, len(names)-1, created, "but for /zookeeper")
}

func TestWhatOnlyALeaderThatWasStoppedHasLoggedDidNotComeToPass(t *testing.T) {
	log := func(zxids ...int64) map[int64]transaction {
		own := map[int64]transaction{}
		for _, z := range zxids {
			own[z] = transaction{zxid: z}
		}
		return own
	}
	var got []int64
	for _, t := range agreed([]map[int64]transaction{
		log(0x1_00000001, 0x1_00000002, 0x1_00000003, 0x1_00000004, 0x2_00000001), // led first; had a snapshot of what came next
		log(0x1_00000001, 0x1_00000002, 0x2_00000001, 0x2_00000002, 0x2_00000003),
		log(0x1_00000002, 0x2_00000002), // had a snapshot of what was before
	}) {
		got = append(got, t.zxid)
	}
	require.Equal(t, []int64{0x1_00000001, 0x1_00000002, 0x2_00000001, 0x2_00000002, 0x2_00000003}, got,
		"without the last two of the first leader; of the present one nothing is undone")
}

// The log is as the server's own tool prints it, with every way in which a node can come and go.
func TestATransactionLogIsReplayed(t *testing.T) {
	text, err := os.ReadFile("testdata/transactions.txt")
	require.NoError(t, err)
	all := parseDump(text)
	require.NoError(t, complete(all))
	truth := replay(all)
	type life struct {
		line, kind string
		born, gone int64
	}
	var lives []life
	for _, s := range truth.nodes {
		lives = append(lives, life{s.line, s.kind, s.born, s.gone})
	}
	require.Equal(t, []life{
		{"election", "lead", 0x103, 0x107}, // deleted alone
		{"mutex", "lock", 0x104, 0x108},    // marked and deleted
		{"rwlock", "W", 0x105, 0x109},      // amended to
		{"rwlock", "R", 0x109, 0x10b},      // a reader, whose session is closed
		{"mutex", "lock", 0x10a, 0},        // stands
	}, lives)
	require.Equal(t, []stamp{{0x106, 25545912809268}}, truth.stamps)
	require.Error(t, complete(append(all[:3:3], all[5:]...)))
}

// ZooKeeper 3.8.0 did that after all its servers had been killed on a busy machine: they no longer agreed on what there was.
func TestADirectoryThatIsMadeAgainWasForgotten(t *testing.T) {
	tx := func(zxid int64, text string) transaction { return transaction{zxid, "0x1", text} }
	truth := replay([]transaction{
		tx(0x1_00000001, "createContainer /turnwise/a,,[31,s{'world,'anyone}"),
		tx(0x1_00000002, "createContainer /turnwise/b,,[31,s{'world,'anyone}"),
		tx(0x1_00000003, "deleteContainer '/turnwise/b"),
		tx(0x2_00000001, "createContainer /turnwise/b,,[31,s{'world,'anyone}"),
		tx(0x3_00000001, "createContainer /turnwise/a,,[31,s{'world,'anyone}"),
	})
	lapses := truth.lapses()
	require.Len(t, lapses, 1)
	require.Equal(t, [2]int64{1, 3}, lapses[0].epochs)
}

// ZooKeeper 3.8.0 did that when two of three servers had been killed: the third led them, and lacked what one of them had in its log, the
// other in a snapshot, and clients had been told.
func TestAnAnswerThatIsInNoLogWasForgotten(t *testing.T) {
	tx := func(zxid, sent int64) transaction {
		return transaction{zxid, "0x1", fmt.Sprintf("setData %s,%d,7", stampPath, sent)}
	}
	log := func(all ...transaction) map[int64]transaction {
		own := map[int64]transaction{}
		for _, t := range all {
			own[t.zxid] = t
		}
		return own
	}
	a, b, c := tx(0x1_00000001, 10), tx(0x1_00000002, 20), tx(0x3_00000001, 30)
	logs := []map[int64]transaction{log(a, b, c), log(a, c), log(a, c)}
	truth := replay(agreed(logs))
	truth.answered([]stamp{{a.zxid, 11}, {c.zxid, 31}})
	require.Empty(t, truth.lapses(), "nobody was told that b had come to pass")
	truth = replay(agreed(logs))
	truth.answered([]stamp{{a.zxid, 11}, {b.zxid, 21}, {c.zxid, 31}})
	lapses := truth.lapses()
	require.Len(t, lapses, 1)
	require.Equal(t, lapse{10, 21, [2]int64{1, 2}}, lapses[0])
}

// A writer is a reader from its downgrade on, even if somebody else writes to its node later.
func TestADowngradeIsWhenItWasMade(t *testing.T) {
	h := &etcdHistory{stands: map[string]*standing{}}
	for revision, value := range []string{1: "", 2: "turnwise kind R\n", 3: "turnwise kind R\n!"} {
		if revision > 0 {
			h.take(&clientv3.Event{Kv: &mvccpb.KeyValue{
				Key: []byte("turnwise/rwlock//W/1-1"), Value: []byte(value), CreateRevision: 1, ModRevision: int64(revision),
			}})
		}
	}
	require.Len(t, h.truth.nodes, 1)
	require.EqualValues(t, 2, h.truth.nodes[0].softened)
}

// A node that goes in the same transaction as the keys of its session has gone with the lease.
func TestANodeThatGoesWithItsLeaseIsTold(t *testing.T) {
	h := &etcdHistory{stands: map[string]*standing{}, ended: map[string]int64{}}
	create := func(key string, at int64) {
		h.take(&clientv3.Event{Kv: &mvccpb.KeyValue{Key: []byte(key), CreateRevision: at, ModRevision: at}})
	}
	remove := func(key string, at int64) {
		h.take(&clientv3.Event{Type: clientv3.EventTypeDelete, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: at}})
	}
	create("turnwise/l//lock/2b02a230-1", 1)
	create("turnwise/l//lock/2b02a230-2", 2)
	create("turnwise/l//lock/401a2300-1", 3)
	create("peer/concurrency.Mutex/2b02a230", 4)
	remove("turnwise/l//lock/2b02a230-1", 5)
	remove("turnwise/l//lock/2b02a230-2", 6)
	remove("turnwise//session/2b02a230/epoch", 6)
	remove("turnwise//session/401a2300/epoch", 7)
	remove("turnwise/l//lock/401a2300-1", 7)
	h.settle()
	var revoked []bool
	for _, s := range h.truth.nodes {
		revoked = append(revoked, s.revoked)
	}
	require.Equal(t, []bool{false, true, true, false}, revoked)
}
