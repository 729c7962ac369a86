package etcdcluster

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/turnwise/turnwise/verify/servers"
)

var (
	requests = flag.Int("etcd.requests", 3000, "how many random requests the imitation and a real server are compared by")
	same     = flag.Uint64("etcd.seed", 1, "which")
)

// direct is a network on which everything arrives at once, at one member.
type direct struct{}

func (direct) Ask(ctx context.Context, _ string, r proto.Message, arrive func(Call, func(proto.Message, error))) (proto.Message, error) {
	type answer struct {
		r   proto.Message
		err error
	}
	answered := make(chan answer, 1)
	arrive(Call{}, func(r proto.Message, err error) { answered <- answer{r, err} })
	select {
	case a := <-answered:
		return a.r, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (direct) Open(string, string, func(error)) Course { return direct{} }
func (direct) Up(_ proto.Message, arrive func(Call))   { arrive(Call{}) }
func (direct) Down(_ proto.Message, arrive func())     { arrive() }
func (direct) Close()                                  {}

// etcd is either of the two.
type etcd struct {
	t      *testing.T
	kv     pb.KVClient
	leases pb.LeaseClient
	renews pb.Lease_LeaseKeepAliveClient
	events pb.Watch_WatchClient

	mu   sync.Mutex
	told map[int64][]string // by watch, what it was told, one event a line
	sum  int

	hangUp func()
}

func connect(t *testing.T, addr string, opts ...grpc.DialOption) *etcd {
	t.Helper()
	conn, err := grpc.NewClient(addr, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &etcd{t: t, kv: pb.NewKVClient(conn), leases: pb.NewLeaseClient(conn), told: make(map[int64][]string)}
	if e.events, err = pb.NewWatchClient(conn).Watch(ctx, grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	if e.renews, err = e.leases.LeaseKeepAlive(ctx, grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			said, err := e.events.Recv()
			if err != nil {
				return
			}
			e.hear(said)
		}
	}()
	e.hangUp = sync.OnceFunc(func() {
		cancel()
		<-done
		conn.Close()
	})
	t.Cleanup(e.hangUp)
	return e
}

// imitation returns what connects to it, and what restarts it.
func imitation(t *testing.T) (begin func() *etcd, restart func()) {
	t.Helper()
	c := New(Config{})
	s := NewServer(c, direct{})
	t.Cleanup(func() {
		s.Stop()
		c.Close()
	})
	return func() *etcd {
		return connect(t, "passthrough:///etcd", grpc.WithContextDialer(func(ctx context.Context, a string) (net.Conn, error) {
			return s.Dialer("link")(ctx, a)
		}))
	}, c.Move // it leads again, and leases have all their time
}

func (e *etcd) hear(said *pb.WatchResponse) {
	e.mu.Lock()
	defer e.mu.Unlock()
	tell := func(format string, args ...any) {
		e.told[said.WatchId] = append(e.told[said.WatchId], fmt.Sprintf(format, args...))
		e.sum++
	}
	if said.Created || said.Canceled {
		tell("created %v canceled %v because %q, compacted %d", said.Created, said.Canceled, said.CancelReason, said.CompactRevision)
	}
	for _, ev := range said.Events {
		tell("%v", plain(ev))
	}
	if !said.Created && !said.Canceled && len(said.Events) == 0 {
		tell("progress at %d", said.Header.Revision)
	}
}

func (e *etcd) heard() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sum
}

// plain returns a message without what tells one cluster from another.
func plain(m proto.Message) string {
	m = proto.Clone(m)
	if h, ok := m.(interface{ GetHeader() *pb.ResponseHeader }); ok && h.GetHeader() != nil {
		h.GetHeader().ClusterId, h.GetHeader().MemberId, h.GetHeader().RaftTerm = 0, 0, 0
	}
	text, err := prototext.MarshalOptions{}.Marshal(m)
	if err != nil {
		panic(err)
	}
	// The library puts in spaces at random, so that nobody relies on them.
	return string(slices.CompactFunc(text, func(a, b byte) bool { return a == ' ' && b == ' ' }))
}

// ask makes a request and says what came of it.
func (e *etcd) ask(r proto.Message) string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var answer proto.Message
	var err error
	switch r := r.(type) {
	case *pb.RangeRequest:
		answer, err = e.kv.Range(ctx, r)
	case *pb.PutRequest:
		answer, err = e.kv.Put(ctx, r)
	case *pb.DeleteRangeRequest:
		answer, err = e.kv.DeleteRange(ctx, r)
	case *pb.TxnRequest:
		answer, err = e.kv.Txn(ctx, r)
	case *pb.CompactionRequest:
		answer, err = e.kv.Compact(ctx, r)
	case *pb.LeaseGrantRequest:
		answer, err = e.leases.LeaseGrant(ctx, r)
	case *pb.LeaseRevokeRequest:
		answer, err = e.leases.LeaseRevoke(ctx, r)
	case *pb.LeaseLeasesRequest:
		answer, err = e.leases.LeaseLeases(ctx, r)
		if err == nil {
			slices.SortFunc(answer.(*pb.LeaseLeasesResponse).Leases, func(a, b *pb.LeaseStatus) int { return int(a.ID - b.ID) })
		}
	case *pb.LeaseTimeToLiveRequest:
		answer, err = e.leases.LeaseTimeToLive(ctx, r)
		if err == nil {
			left := answer.(*pb.LeaseTimeToLiveResponse)
			left.TTL = min(left.TTL, 0) // it runs
			slices.SortFunc(left.Keys, slices.Compare)
		}
	case *pb.LeaseKeepAliveRequest:
		if err = e.renews.Send(r); err == nil {
			answer, err = e.renews.Recv()
		}
	case *pb.WatchRequest:
		if err = e.events.Send(r); err == nil {
			return "sent"
		}
	}
	if err != nil {
		return fmt.Sprintf("%v: %s", status.Code(err), status.Convert(err).Message())
	}
	return plain(answer)
}

// chooser makes requests at random: with few keys, so that they meet, and now and then with something that must be refused.
type chooser struct {
	*rand.Rand
	rev     int64 // about
	leases  []int64
	watches int64
}

func (c *chooser) key() []byte { return fmt.Appendf(nil, "k%d", c.IntN(9)) }

func (c *chooser) end() []byte {
	switch c.IntN(6) {
	case 0:
		return []byte("k9")
	case 1:
		return []byte{0}
	case 2:
		return c.key()
	}
	return nil
}

func (c *chooser) one(n int) bool { return c.IntN(n) == 0 }

func (c *chooser) some(n int) int64 {
	if c.one(n) {
		return c.Int64N(c.rev + 3)
	}
	return 0
}

func (c *chooser) lease() int64 {
	switch {
	case len(c.leases) == 0, c.one(2):
		return 0
	case c.one(15):
		return 4711
	}
	return c.leases[c.IntN(len(c.leases))]
}

func (c *chooser) get() *pb.RangeRequest {
	r := &pb.RangeRequest{Key: c.key(), RangeEnd: c.end(), Revision: c.some(4), MaxModRevision: c.some(9), MinModRevision: c.some(9),
		MaxCreateRevision: c.some(4), MinCreateRevision: c.some(9), Serializable: c.one(2), KeysOnly: c.one(3), CountOnly: c.one(9)}
	if c.one(3) {
		r.Limit = c.Int64N(4)
	}
	if c.one(2) {
		r.SortTarget = pb.RangeRequest_SortTarget(c.IntN(3) + 2*c.IntN(2)) // KEY, VERSION, CREATE, VALUE
		r.SortOrder = pb.RangeRequest_SortOrder(c.IntN(3))
	}
	if r.SortTarget == pb.RangeRequest_VERSION || r.SortTarget == pb.RangeRequest_VALUE {
		r.Limit = 1 << 20 // which of those that are equal comes first is not said
		r.SortTarget = pb.RangeRequest_CREATE
	}
	if c.one(60) {
		r.Key = nil
	}
	return r
}

// put is for any place. A transaction that keeps the lease or the value of a key that it has deleted ends etcd itself
// (3.7.3), so only single puts do that.
func (c *chooser) put() *pb.PutRequest {
	r := &pb.PutRequest{Key: c.key(), Value: fmt.Appendf(nil, "v%d", c.IntN(20)), Lease: c.lease(), PrevKv: c.one(4)}
	if c.one(300) {
		r.Value = make([]byte, 1600<<10)
	}
	return r
}

func (c *chooser) putOnly() *pb.PutRequest {
	r := c.put()
	if c.one(6) {
		r.IgnoreLease = true
		if !c.one(9) {
			r.Lease = 0
		}
	}
	if c.one(9) {
		r.IgnoreValue = true
		if !c.one(9) {
			r.Value = nil
		}
	}
	return r
}

func (c *chooser) remove() *pb.DeleteRangeRequest {
	r := &pb.DeleteRangeRequest{Key: c.key(), PrevKv: c.one(4)}
	if c.one(5) {
		r.RangeEnd = c.end()
	}
	return r
}

func (c *chooser) compare() *pb.Compare {
	q := &pb.Compare{Key: c.key(), Result: pb.Compare_CompareResult(c.IntN(4)), Target: pb.Compare_CompareTarget(c.IntN(5))}
	if c.one(4) {
		q.RangeEnd = c.end()
	}
	n := c.Int64N(3)
	if c.one(2) {
		n = c.Int64N(c.rev + 3)
	}
	switch q.Target {
	case pb.Compare_VERSION:
		q.TargetUnion = &pb.Compare_Version{Version: n}
	case pb.Compare_CREATE:
		q.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: n}
	case pb.Compare_MOD:
		q.TargetUnion = &pb.Compare_ModRevision{ModRevision: n}
	case pb.Compare_LEASE:
		q.TargetUnion = &pb.Compare_Lease{Lease: c.lease()}
	default:
		q.TargetUnion = &pb.Compare_Value{Value: fmt.Appendf(nil, "v%d", c.IntN(20))}
	}
	return q
}

func (c *chooser) txn(depth int) *pb.TxnRequest {
	r := &pb.TxnRequest{}
	for range c.IntN(3) {
		r.Compare = append(r.Compare, c.compare())
	}
	reads := c.one(3)
	ops := func() (all []*pb.RequestOp) {
		for range c.IntN(4) {
			op := &pb.RequestOp{}
			switch n := c.IntN(8); {
			case reads || n < 3:
				op.Request = &pb.RequestOp_RequestRange{RequestRange: c.get()}
			case n < 5:
				op.Request = &pb.RequestOp_RequestPut{RequestPut: c.put()}
			case n < 7 || depth == 0:
				op.Request = &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: c.remove()}
			default:
				op.Request = &pb.RequestOp_RequestTxn{RequestTxn: c.txn(depth - 1)}
			}
			all = append(all, op)
		}
		return all
	}
	r.Success, r.Failure = ops(), ops()
	return r
}

// next also says whether watches must have been told everything before the request, and how long it takes to take effect.
func (c *chooser) next() (r proto.Message, settle bool, takes time.Duration) {
	switch n := c.IntN(100); {
	case n < 25:
		return c.get(), false, 0
	case n < 50:
		return c.putOnly(), false, 0
	case n < 58:
		return c.remove(), false, 0
	case n < 85:
		return c.txn(2), false, 0
	case n < 88:
		id := c.Int64N(5000) + 1
		c.leases = append(c.leases, id)
		return &pb.LeaseGrantRequest{ID: id, TTL: 600}, false, 0
	case n < 90:
		return &pb.LeaseRevokeRequest{ID: c.lease()}, false, 0
	case n < 91:
		return &pb.LeaseTimeToLiveRequest{ID: c.lease(), Keys: true}, false, 0
	case n < 92:
		return &pb.LeaseLeasesRequest{}, false, 0
	case n < 94:
		return &pb.LeaseKeepAliveRequest{ID: c.lease()}, false, 0
	case n < 97:
		w := &pb.WatchCreateRequest{Key: c.key(), RangeEnd: c.end(), PrevKv: c.one(3)}
		if c.one(2) { // as the driver does, and sometimes one that is taken
			w.WatchId = 1000 + c.Int64N(60)
		}
		if c.one(4) {
			w.Filters = append(w.Filters, pb.WatchCreateRequest_FilterType(c.IntN(2)))
		}
		if takes = 20 * time.Millisecond; c.one(6) {
			w.StartRevision, takes = c.Int64N(c.rev+5)-1, 300*time.Millisecond
		}
		c.watches++
		return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: w}}, true, takes
	case n < 99:
		id := c.Int64N(c.watches + 1)
		if c.one(2) {
			id = 1000 + c.Int64N(60)
		}
		return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: id}}}, true, 20 * time.Millisecond
	}
	if c.one(4) {
		return &pb.CompactionRequest{Revision: c.Int64N(c.rev + 3)}, true, 0
	}
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}}, true, 20 * time.Millisecond
}

// The same requests, one after the other, have the same answers, and watches are told the same in the same order. How many
// messages that takes may differ, and so may the order among watches. The server is killed in between, and started again.
func TestItAnswersAsARealServerDoes(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a server")
	}
	server := servers.Etcd(t).Member(0)
	begin, restart := imitation(t)
	theirs, ours := connect(t, server.Addr()), begin()
	c := &chooser{Rand: rand.New(rand.NewPCG(*same, 1)), rev: 1}
	settled := func() bool {
		for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(time.Millisecond) {
			if theirs.heard() == ours.heard() {
				return true
			}
		}
		return false
	}
	refused, restarts, watches, told := 0, 0, 0, 0
	toldTheSame := func() {
		settled()
		theirs.mu.Lock()
		ours.mu.Lock()
		defer theirs.mu.Unlock()
		defer ours.mu.Unlock()
		for id, want := range theirs.told {
			if got := ours.told[id]; !slices.Equal(got, want) {
				i := 0
				for i < min(len(got), len(want)) && got[i] == want[i] {
					i++
				}
				t.Fatalf("watch %d: the first %d are the same, then\n etcd: %q\n ours: %q", id, i, want[i:min(i+3, len(want))], got[i:min(i+3, len(got))])
			}
		}
		if len(ours.told) != len(theirs.told) {
			t.Fatalf("ours told %d watches, theirs %d", len(ours.told), len(theirs.told))
		}
		watches, told = watches+len(theirs.told), told+theirs.sum
	}
	for i := range *requests {
		if i%(*requests/4+1) == *requests/8 {
			toldTheSame()
			theirs.hangUp()
			ours.hangUp()
			server.Kill()
			if err := server.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			restart()
			theirs, ours = connect(t, server.Addr()), begin()
			restarts, c.watches = restarts+1, 0
		}
		r, settle, takes := c.next()
		if settle && !settled() {
			break // it is shown below
		}
		theirs, ours := theirs.ask(r), ours.ask(r)
		if theirs != ours {
			t.Fatalf("request %d, %T %v\n etcd: %s\n ours: %s", i, r, r, theirs, ours)
		}
		time.Sleep(takes)
		var rev int64
		if _, err := fmt.Sscanf(theirs, "header:{revision:%d", &rev); err == nil {
			c.rev = max(c.rev, rev)
		} else if theirs != "sent" {
			refused++
		}
	}
	toldTheSame()
	t.Logf("%d requests, %d of them refused, up to revision %d; %d restarts; %d watches were told %d things", *requests, refused, c.rev, restarts, watches, told)
}
