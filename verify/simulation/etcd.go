package simulation

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	etcddriver "github.com/turnwise/turnwise/coord/etcd"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/verify/simulation/etcdcluster"
)

// etcd is a far side: an etcd cluster behind its gRPC services. Each client has the shipped driver, coord/etcd, on a
// clientv3 of its own. Requests, answers and the messages of streams are parked; gRPC's own frames arrive at once.
//
// A client has one connection, and its requests go round the members; a stream stays with one. So gRPC's choice among
// connections, which begins at a random one, is not simulated.
type etcd struct {
	network *scheduler
	ttl     time.Duration
	names   etcddriver.Names
	proxied bool
	cluster *etcdcluster.Cluster
	server  *etcdcluster.Server

	mu       sync.Mutex
	clients  []*clientv3.Client
	turns    map[string]int // by link: which member is next
	owners   map[int64]string
	refusing map[string]error // by link: the error that its next request gets
	full     map[string]bool  // by link: its next request that puts something uses up the quota
	alarm    time.Time        // until then no member puts anything
	lacking  *rights          // nil: nobody lacks any
	stranded map[string]int
	pinned   map[string]pin // by link
	underWay []*broken
	courses  map[string]int // by link and method: how many streams there were
}

// broken is what a cut breaks: a request without an answer, or a stream.
type broken struct {
	link   string
	breaks func()
}

// newEtcd makes a cluster. cfg says which members there are, and what stands in front of them.
func newEtcd(network *scheduler, ttl time.Duration, cfg etcdcluster.Config, names etcddriver.Names) *etcd {
	f := &etcd{network: network, ttl: ttl, names: names, turns: make(map[string]int), owners: make(map[int64]string), refusing: make(map[string]error), full: make(map[string]bool),
		stranded: make(map[string]int), pinned: make(map[string]pin), courses: make(map[string]int)}
	cfg.Election, f.proxied = electsAfter, cfg.Proxied
	f.cluster = etcdcluster.New(cfg)
	f.server = etcdcluster.NewServer(f.cluster, f)
	return f
}

func (f *etcd) NewDriver(link string) driver.Driver {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:             []string{"passthrough:///etcd"},
		Logger:                zap.NewNop(),
		BackoffJitterFraction: 1e-12, // or a seed would not replay
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(f.server.Dialer(link)),
			grpc.WithTransportCredentials(insecure.NewCredentials())},
	})
	if err != nil {
		panic(err)
	}
	d, err := etcddriver.New(client, etcddriver.WithTTL(f.ttl), etcddriver.WithRoot(root), etcddriver.WithNames(f.names))
	if err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turns[link] = len(f.clients)
	f.clients = append(f.clients, client)
	return d
}

// What the world sees past the network. Keys are parsed here, so that no code of the driver judges the driver.

const root = "turnwise/"

// nodeOf takes a key apart: root, line, "//", kind, "/", lease, "-", number; or, in the way of other tools, root, line, "/",
// lease, "-", number and, unless it is a plain lock's, "-", kind.
func (f *etcd) nodeOf(kv *mvccpb.KeyValue) (line string, n driver.Node, ok bool) {
	key := strings.TrimPrefix(string(kv.Key), root)
	line, rest, ok := strings.Cut(key, "//")
	kind, _, named := strings.Cut(rest, "/")
	if f.names == etcddriver.Stock {
		line, rest, ok = strings.Cut(key, "/")
		parts := strings.SplitN(rest, "-", 3)
		if named, kind = len(parts) > 1, "lock"; len(parts) > 2 {
			kind = parts[2]
		}
	}
	if !ok || !named || line == "" {
		return "", n, false
	}
	if amended, found := strings.CutPrefix(string(kv.Value), "turnwise kind "); found {
		kind, _, _ = strings.Cut(amended, "\n")
	}
	return line, driver.Node{Line: line, ID: nodeName(string(kv.Key), kv.CreateRevision), Kind: kind, Token: driver.Token(kv.CreateRevision)}, true
}

func nodeName(key string, created int64) string { return key + "@" + strconv.FormatInt(created, 10) }

func keyOf(node string) string { return node[:strings.LastIndexByte(node, '@')] }

// leaseOf returns the lease that a contender's key names.
func leaseOf(node string) int64 {
	name := node[strings.LastIndexByte(node, '/')+1:]
	hex, _, _ := strings.Cut(name, "-")
	id, _ := strconv.ParseInt(hex, 16, 64)
	return id
}

func (f *etcd) Nodes(line string) (nodes []driver.Node) {
	for _, kv := range f.cluster.Keys(root + line + "/") {
		if in, n, ok := f.nodeOf(kv); ok && in == line {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b driver.Node) int { return int(a.Token - b.Token) })
	return nodes
}

func (f *etcd) Names(prefix string) (names []string) {
	for _, kv := range f.cluster.Keys(root + prefix) {
		if line, _, ok := f.nodeOf(kv); ok {
			names = append(names, line)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Expiry is zero for a lease that can no longer be renewed, even if the leader has not noticed yet.
func (f *etcd) Expiry(node string) time.Time {
	if end := f.cluster.Expiry(leaseOf(node)); time.Now().Before(end) {
		return end
	}
	return time.Time{}
}

func (*etcd) Abandoned(string) bool { return false }

func (f *etcd) LinkOf(node string) string {
	if f.cluster.Expiry(leaseOf(node)).IsZero() {
		return ""
	}
	return f.owner(leaseOf(node))
}

func (f *etcd) owner(lease int64) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.owners[lease]
}

func (*etcd) Taken(string) time.Time { return time.Time{} } // its nodes went with it

// Watches counts all watches except the one that each session has.
func (f *etcd) Watches() int {
	n := 0
	for _, key := range f.cluster.Watches() {
		if !strings.Contains(key, "/session/") {
			n++
		}
	}
	return n
}

// Remains lists the keys that no lease takes away.
func (f *etcd) Remains() (all []string) {
	for _, kv := range f.cluster.Keys("") {
		if f.cluster.Expiry(kv.Lease).IsZero() && !strings.Contains(string(kv.Key), "/memo/") && string(kv.Key) != etcdcluster.Elsewhere {
			all = append(all, string(kv.Key))
		}
	}
	return all
}

func (f *etcd) Guarded(h *coord.Hold) func() bool {
	guard, err := etcddriver.Guard(h)
	if err != nil {
		return nil
	}
	return func() bool {
		answer, err := f.cluster.Do(&pb.TxnRequest{Compare: []*pb.Compare{guard.GetCompare()}})
		return err == nil && answer.(*pb.TxnResponse).Succeeded
	}
}

func (f *etcd) Remove(node string) bool {
	for _, kv := range f.cluster.Keys(keyOf(node)) {
		if nodeName(string(kv.Key), kv.CreateRevision) == node {
			_, err := f.cluster.Do(&pb.DeleteRangeRequest{Key: kv.Key})
			return err == nil
		}
	}
	return false
}

func (f *etcd) Write(node string, data []byte) {
	_, _ = f.cluster.Do(&pb.PutRequest{Key: []byte(keyOf(node)), Value: data, IgnoreLease: true}) // it may have gone
}

func (f *etcd) ExpireLink(link string) {
	for _, id := range f.cluster.Leases() {
		if f.owner(id) == link {
			_, _ = f.cluster.Do(&pb.LeaseRevokeRequest{ID: id})
		}
	}
}

func (f *etcd) Refuse(link string) { f.refuse(link, etcdcluster.Denied) }

func (f *etcd) refuse(link string, with error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusing[link] = with
}

// Reconnect breaks all that is open on a link.
func (f *etcd) Reconnect(link string) {
	f.mu.Lock()
	var all []*broken
	for _, b := range f.underWay {
		if b.link == link {
			all = append(all, b)
		}
	}
	member, stranded := f.stranded[link]
	delete(f.stranded, link)
	f.mu.Unlock()
	if stranded {
		f.cluster.Return(member, true)
	}
	for _, b := range all {
		b.breaks()
	}
}

// Strand cuts off the member that the link's next request goes to.
func (f *etcd) Strand(link string) (heal func()) {
	member := f.next(link)
	f.mu.Lock()
	f.stranded[link] = member
	f.mu.Unlock()
	f.cluster.Isolate(member)
	return func() {
		f.mu.Lock()
		delete(f.stranded, link)
		f.mu.Unlock()
		f.cluster.Return(member, true)
	}
}

func (f *etcd) CatchUp(replica, n int) int {
	if n == everything {
		f.cluster.KeepUp()
	} else {
		f.cluster.Follow(replica, n)
	}
	return f.cluster.Lag(replica)
}

func (*etcd) Tidy() {}

func (f *etcd) Close() {
	for _, c := range f.clients {
		c.Close()
	}
	f.server.Stop()
	f.cluster.Close()
}

// What lies between the drivers and the cluster.

var errHungUp = status.Error(codes.Unavailable, "error reading from server: EOF")

// call returns where the next request of a link arrives, and whether it is refused there.
func (f *etcd) call(link string, refusable, renews bool) etcdcluster.Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	to := etcdcluster.Call{Member: f.turns[link] % f.cluster.Members()}
	f.turns[link]++
	if p, ok := f.pinned[link]; ok && (renews || !p.renewals) {
		to.Member = p.member
	}
	if refusable {
		to.Refuse = f.refusing[link]
		delete(f.refusing, link)
	}
	return to
}

// fills reports whether a request of a link uses up the quota.
func (f *etcd) fills(link string, r proto.Message) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.full[link] || !etcdcluster.Puts(r) {
		return false
	}
	delete(f.full, link)
	return true
}

// alarms reports whether a request is refused for lack of space.
func (f *etcd) alarms(r proto.Message) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Before(f.alarm) && etcdcluster.Puts(r)
}

// next returns the member that the next request of a link goes to.
func (f *etcd) next(link string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.turns[link] % f.cluster.Members()
}

func (f *etcd) begin(link string, breaks func()) (end func()) {
	b := &broken{link, breaks}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.underWay = append(f.underWay, b)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.underWay = slices.DeleteFunc(f.underWay, func(other *broken) bool { return other == b })
	}
}

// Ask carries a request to the cluster, and the answer back.
func (f *etcd) Ask(ctx context.Context, link string, r proto.Message,
	arrive func(etcdcluster.Call, func(proto.Message, error))) (proto.Message, error) {
	type answer struct {
		r   proto.Message
		err error
	}
	answered := make(chan answer, 1)
	give := func(r proto.Message, err error) {
		select {
		case answered <- answer{r, err}:
		default: // it has been told already
		}
	}
	hangUp := func() { give(nil, errHungUp) }
	defer f.begin(link, hangUp)()
	p := &parcel{link: link, what: f.tell(r), dir: toService, lose: hangUp}
	p.arrive = func() {
		to := f.call(link, true, false)
		if to.Full = f.fills(link, r); to.Refuse == nil && f.alarms(r) {
			to.Refuse = etcdcluster.Full
		}
		if f.forbids(r) {
			to.Refuse = etcdcluster.Denied
		}
		arrive(to, func(said proto.Message, err error) {
			if granted, ok := said.(*pb.LeaseGrantResponse); ok && err == nil {
				f.mu.Lock()
				f.owners[granted.ID] = link
				f.mu.Unlock()
			}
			f.network.post(&parcel{link: link, what: p.what, n: p.n, dir: toDriver, lose: hangUp, arrive: func() {
				f.network.answered(link, p.what)
				give(said, err)
			}})
		})
	}
	p.mutely = func() {
		if !f.forbids(r) {
			arrive(f.call(link, false, false), func(proto.Message, error) {})
		}
	}
	f.network.post(p)
	select {
	case a := <-answered:
		return a.r, a.err
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// course is a stream.
type course struct {
	f      *etcd
	link   string
	name   string
	breaks func()
	end    func()

	mu      sync.Mutex
	watches map[int64]string // which single keys it watches
	over    bool
}

func (f *etcd) Open(link, method string, breaks func(error)) etcdcluster.Course {
	f.mu.Lock()
	key := link + " " + method
	f.courses[key]++
	name := fmt.Sprintf("%s%d", method, f.courses[key])
	f.mu.Unlock()
	hangUp := func() { breaks(errHungUp) }
	return &course{f: f, link: link, name: name, breaks: hangUp, end: f.begin(link, hangUp), watches: make(map[int64]string)}
}

func (c *course) Close() {
	c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

func (c *course) Up(r proto.Message, arrive func(etcdcluster.Call)) {
	refusable := true
	if w, ok := r.(*pb.WatchRequest); ok {
		created := w.GetCreateRequest()
		if refusable = created != nil; refusable && len(created.RangeEnd) == 0 {
			c.mu.Lock()
			c.watches[created.WatchId] = string(created.Key)
			c.mu.Unlock()
		}
	}
	c.f.network.post(&parcel{link: c.link, stream: c.name, what: c.f.tell(r), dir: toService, lose: c.breaks,
		arrive: func() {
			to := c.f.call(c.link, refusable, strings.HasPrefix(c.name, "renew"))
			if w, ok := r.(*pb.WatchRequest); ok && w.GetCreateRequest() != nil && c.f.forbids(w.GetCreateRequest()) {
				to.Refuse = etcdcluster.Denied
			}
			arrive(to)
		}})
}

func (c *course) Down(r proto.Message, arrive func()) {
	c.f.network.post(&parcel{link: c.link, stream: c.name, what: c.f.tell(r), dir: toDriver, lose: c.breaks, arrive: func() {
		if w, ok := r.(*pb.WatchResponse); ok && !c.f.network.isOpen() && !c.f.proxied { // a proxy gives them other numbers
			c.hear(w)
		}
		arrive()
	}})
}

// hear records which nodes a message tells their owner it has lost: those that the owner watches.
func (c *course) hear(said *pb.WatchResponse) {
	c.mu.Lock()
	key, over := c.watches[said.WatchId], c.over
	c.mu.Unlock()
	if over {
		return
	}
	for _, e := range said.Events {
		if e.Type == mvccpb.Event_DELETE && string(e.Kv.Key) == key && c.f.owner(leaseOf(key)) == c.link {
			c.f.network.hearGone(nodeName(key, c.f.cluster.Created(key, e.Kv.ModRevision)))
		}
	}
}

// tell says what a message is about.
func (f *etcd) tell(r proto.Message) string {
	switch r := r.(type) {
	case *pb.RangeRequest:
		if strings.HasPrefix(string(r.Key), root+"/session/") {
			return "read session/" + bareKey(r.Key)
		}
		return "read " + bareKey(r.Key)
	case *pb.PutRequest:
		return "put " + bareKey(r.Key)
	case *pb.TxnRequest:
		return tellTxn(r)
	case *pb.LeaseGrantRequest:
		return "grant"
	case *pb.LeaseRevokeRequest:
		return fmt.Sprintf("revoke %x", r.ID)
	case *pb.LeaseTimeToLiveRequest:
		return fmt.Sprintf("sweep %x", r.ID)
	case *pb.LeaseKeepAliveRequest:
		return fmt.Sprintf("renew %x", r.ID)
	case *pb.LeaseKeepAliveResponse:
		return fmt.Sprintf("renew %x", r.ID)
	case *pb.WatchRequest:
		if w := r.GetCreateRequest(); w != nil {
			return "watch " + bareKey(w.Key)
		}
		return "unwatch"
	case *pb.WatchResponse:
		return tellWatch(r)
	}
	return string(r.ProtoReflect().Descriptor().Name())
}

func tellTxn(r *pb.TxnRequest) string {
	for _, op := range r.Success {
		switch {
		case op.GetRequestPut() != nil:
			for _, c := range r.Compare {
				if string(c.Key) == string(op.GetRequestPut().Key) && c.GetCreateRevision() != 0 {
					return "amend " + bareKey(c.Key)
				}
			}
			return "join " + bareKey(op.GetRequestPut().Key)
		case op.GetRequestDeleteRange() != nil:
			return "leave " + bareKey(op.GetRequestDeleteRange().Key)
		case op.GetRequestTxn() != nil:
			return tellTxn(op.GetRequestTxn()) + fmt.Sprintf(" and %d more", len(r.Success)-1)
		}
	}
	first := r.Success[0].GetRequestRange()
	what := fmt.Sprintf("look %s (%d)", bareKey(first.Key), len(r.Success))
	if first.Revision > 0 {
		what += fmt.Sprintf(" at %d", first.Revision)
	}
	return what
}

func tellWatch(r *pb.WatchResponse) string {
	switch {
	case r.Created && r.Canceled:
		return "refused"
	case r.Created:
		return "watching"
	case r.Canceled:
		return "unwatched"
	case len(r.Events) == 0:
		return "progress"
	}
	var all []string
	for _, e := range r.Events {
		all = append(all, strings.ToLower(e.Type.String())+" "+bareKey(e.Kv.Key))
	}
	return "event " + strings.Join(all, ", ")
}

// bareKey is a key without what all keys have in common.
func bareKey(key []byte) string {
	return strings.Replace(strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(string(key), root), "/session/"), "/epoch"), "//", "/", 1)
}
