package etcdcluster

import (
	"maps"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Config describes a cluster. Zero values stand for etcd's defaults.
type Config struct {
	Members  int           // zero: 1
	Election time.Duration // after which a leader that nobody hears from is replaced; zero: 1 s
	Rate     float64       // how much faster the leader's clock runs than ours; zero: 1
	Proxied  bool          // etcd's grpc-proxy stands in front of it: it gives watches numbers of its own, whatever they ask for
}

// Cluster is the state of all members. Each method is one thing that happens. Answers and news are handed out meanwhile, in
// order, to functions that must not call the Cluster.
type Cluster struct {
	cfg    Config
	minTTL int64

	mu      sync.Mutex
	state   *change
	log     []proto.Message // all that was agreed on, in order
	revs    []int64         // the revision after each of those
	members []*member
	leader  int // the last one that was elected
	silent  time.Time
	term    uint64
	eras    int   // how often a leader was elected, or a backup put back
	granted int64 // how many leases were granted without a number of their own
	keepsUp bool  // everybody applies everything at once
	closed  chan struct{}
}

const firstTerm = 2

// member is one server.
type member struct {
	id      int
	applied int    // how many entries of the log
	term    uint64 // the latest that it has heard of
	reign   *reign // nil: it leads, or knows that it does not
	away    bool
	asleep  bool
	since   time.Time // when it last heard of a leader
	waiting []waiting // answers that wait for entries to be applied
	stuck   []stuck   // requests that wait for a leader
	inbox   []stuck   // proposals that came to it as the leader while it slept
	streams []*Stream
}

type waiting struct {
	index int
	do    func()
}

type stuck struct {
	since  time.Time
	try    func()
	giveUp func(error)
}

// New makes a cluster whose first member leads.
func New(cfg Config) *Cluster {
	if cfg.Members == 0 {
		cfg.Members = 1
	}
	if cfg.Election == 0 {
		cfg.Election = time.Second
	}
	if cfg.Rate == 0 {
		cfg.Rate = 1
	}
	// One and a half election timeouts, in whole seconds.
	c := &Cluster{cfg: cfg, minTTL: int64((3*cfg.Election/2 + time.Second - 1) / time.Second), term: firstTerm, closed: make(chan struct{})}
	c.state = &change{store: newStore(), lessor: newLessor()}
	for i := range cfg.Members {
		c.members = append(c.members, &member{id: i, since: time.Now(), term: c.term})
	}
	go c.tick()
	return c
}

// Close stops the cluster.
func (c *Cluster) Close() { close(c.closed) }

// tick is how often the leader looks for leases that have expired.
const tick = 500 * time.Millisecond

// requestTimeout is how long a member waits before it gives up a request that the leader does not answer.
func (c *Cluster) requestTimeout() time.Duration { return 5*time.Second + 2*c.cfg.Election }

func (c *Cluster) tick() {
	t := time.NewTicker(time.Duration(float64(tick) / c.cfg.Rate))
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-c.closed:
			return
		}
		c.mu.Lock()
		if c.led() {
			for _, id := range slices.Sorted(maps.Keys(c.state.leases)) {
				if l := c.state.leases[id]; !time.Now().Before(l.expiry) {
					c.commit(&pb.LeaseRevokeRequest{ID: id})
				}
			}
		}
		for _, m := range c.members {
			c.overdue(m)
		}
		c.mu.Unlock()
	}
}

// overdue gives up what has waited for too long.
func (c *Cluster) overdue(m *member) {
	if m.asleep {
		return
	}
	keep := func(s stuck) bool {
		if time.Since(s.since) < c.requestTimeout() {
			return true
		}
		s.giveUp(rpctypes.ErrGRPCTimeout)
		return false
	}
	all := m.stuck
	m.stuck = nil
	for _, s := range all {
		if keep(s) {
			m.stuck = append(m.stuck, s)
		}
	}
	if c.leaderless(m) {
		for _, s := range slices.Clone(m.streams) {
			if s.needsLeader {
				s.broken(rpctypes.ErrGRPCNoLeader)
			}
		}
	}
}

// expiry returns when a lease ends that is renewed now.
func (c *Cluster) expiry(ttl int64) time.Time {
	return time.Now().Add(time.Duration(float64(ttl) * float64(time.Second) / c.cfg.Rate))
}

// led reports whether there is a leader that does its work.
func (c *Cluster) led() bool { l := c.members[c.leader]; return !l.away && !l.asleep }

// reaches reports whether a member gets through to a leader.
func (c *Cluster) reaches(m *member) bool { return c.led() && !m.away }

// leaderless reports whether a member knows that it has no leader.
func (c *Cluster) leaderless(m *member) bool {
	if c.reaches(m) {
		m.since = time.Now()
		return false
	}
	return time.Since(m.since) > 3*c.cfg.Election
}

func (c *Cluster) header(m *member) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: 1, MemberId: uint64(m.id + 1), RaftTerm: m.term, Revision: c.rev(m)}
}

// rev returns the revision that a member has come to.
func (c *Cluster) rev(m *member) int64 {
	if m.applied == 0 {
		return 1
	}
	return c.revs[m.applied-1]
}

// commit adds an entry to the log. It is applied everywhere in the same way, by the leader at once.
func (c *Cluster) commit(r proto.Message) (proto.Message, error) {
	answer, err := c.apply(r)
	c.log = append(c.log, r)
	c.revs = append(c.revs, c.state.rev)
	c.follow(c.members[c.leader], len(c.log))
	c.followAll()
	return answer, err
}

// KeepUp has all members follow at once from now on.
func (c *Cluster) KeepUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepsUp = true
	c.followAll()
}

func (c *Cluster) followAll() {
	for _, m := range c.members {
		if c.keepsUp {
			c.follow(m, m.applied+c.lag(m))
		}
	}
}

// Keys returns what stands under a prefix, as the leader has it.
func (c *Cluster) Keys(prefix string) []*mvccpb.KeyValue {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.all(prefix)
}

// Created returns the create revision that a key had before a revision; 0: it was not there.
func (c *Cluster) Created(key string, before int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.at(key, before-1).GetCreateRevision()
}

// Do carries out a request at the leader, at once.
func (c *Cluster) Do(r proto.Message) (proto.Message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.commit(r)
}

func (c *Cluster) apply(r proto.Message) (answer proto.Message, err error) {
	s := &change{store: c.state.store, lessor: c.state.lessor}
	var ended []renewal
	switch r := r.(type) {
	case *pb.PutRequest:
		if err = s.mayPut(r); err == nil {
			answer = s.put(r)
		}
	case *pb.DeleteRangeRequest:
		answer = s.remove(r)
	case *pb.TxnRequest:
		answer, err = s.txn(r, s.rev)
	case *pb.CompactionRequest:
		if err = s.compact(r.Revision); err == nil {
			answer = &pb.CompactionResponse{Header: &pb.ResponseHeader{Revision: s.rev}}
		}
	case bump:
		s.raise(r.by)
	case *pb.LeaseGrantRequest:
		answer, err = s.grant(r, c.minTTL, c.expiry)
	case *pb.LeaseRevokeRequest:
		if l := s.leases[r.ID]; l != nil {
			ended = l.late
		}
		err = s.revoke(r.ID)
		answer = &pb.LeaseRevokeResponse{Header: &pb.ResponseHeader{}}
	}
	s.done()
	for _, r := range ended {
		r.ended()
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// follow has a member apply the log up to an index.
func (c *Cluster) follow(m *member, index int) {
	for m.applied < index {
		before := c.rev(m)
		m.applied++
		if now := c.rev(m); now > before {
			for _, s := range slices.Clone(m.streams) {
				s.tell(now)
			}
		}
		due := m.waiting
		m.waiting = nil
		for _, w := range due {
			if w.index <= m.applied {
				w.do()
			} else {
				m.waiting = append(m.waiting, w)
			}
		}
	}
}

// Lag returns how many entries a member has yet to apply, as far as it can get them.
func (c *Cluster) Lag(id int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lag(c.members[id])
}

func (c *Cluster) lag(m *member) int {
	if !c.reaches(m) || m.asleep {
		return 0
	}
	return len(c.log) - m.applied
}

// Follow has a member apply up to n more entries.
func (c *Cluster) Follow(id, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[id]
	c.follow(m, m.applied+min(n, c.lag(m)))
}

// Ask hands a request to a member. The answer may come at once or much later.
func (c *Cluster) Ask(id int, r proto.Message, needsLeader bool, answer func(proto.Message, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ask(c.members[id], r, needsLeader, once(answer))
}

func once(answer func(proto.Message, error)) func(proto.Message, error) {
	done := false
	return func(r proto.Message, err error) {
		if !done {
			done = true
			answer(r, err)
		}
	}
}

func (c *Cluster) ask(m *member, r proto.Message, needsLeader bool, answer func(proto.Message, error)) {
	again := stuck{time.Now(), func() { c.ask(m, r, needsLeader, answer) }, func(err error) { answer(nil, err) }}
	if m.asleep {
		m.stuck = append(m.stuck, again)
		return
	}
	if err := check(r); err != nil {
		answer(nil, err)
		return
	}
	if needsLeader && c.leaderless(m) {
		answer(nil, rpctypes.ErrGRPCNoLeader)
		return
	}
	if alone(r) {
		answer(c.read(m, r))
		return
	}
	leader := c.members[c.leader]
	if c.reaches(m) {
		c.hears(m) // from a majority
	}
	switch reads := reads(r); {
	case c.reaches(m) && reads:
		c.when(m, len(c.log), func() { answer(c.read(m, r)) })
	case c.reaches(m):
		answered, err := c.commit(c.named(r))
		c.when(m, len(c.log), func() { answer(c.fill(m, answered), err) })
	case !reads && !m.away && leader.asleep && time.Since(c.silent) < c.cfg.Election: // nobody has noticed yet
		again.try = func() {
			answered, err := c.commit(c.named(r))
			c.when(m, len(c.log), func() { answer(c.fill(m, answered), err) })
		}
		leader.inbox = append(leader.inbox, again)
	default:
		m.stuck = append(m.stuck, again)
	}
}

// when calls do once a member has applied that many entries.
func (c *Cluster) when(m *member, index int, do func()) {
	if m.applied >= index {
		do()
		return
	}
	m.waiting = append(m.waiting, waiting{index, do})
}

// named gives a number to a lease that is asked for without one.
func (c *Cluster) named(r proto.Message) proto.Message {
	if g, ok := r.(*pb.LeaseGrantRequest); ok && g.ID == 0 {
		c.granted++
		return &pb.LeaseGrantRequest{TTL: g.TTL, ID: 0x7000 + c.granted}
	}
	return r
}

// alone reports whether a member answers by itself.
func alone(r proto.Message) bool {
	switch r := r.(type) {
	case *pb.RangeRequest:
		return r.Serializable
	case *pb.TxnRequest:
		return serializable(r)
	case *pb.AuthStatusRequest, *pb.LeaseLeasesRequest, *pb.StatusRequest, *pb.MemberListRequest:
		return true
	}
	return false
}

// reads reports whether a request changes nothing.
func reads(r proto.Message) bool {
	switch r := r.(type) {
	case *pb.RangeRequest, *pb.LeaseTimeToLiveRequest, *pb.LeaseKeepAliveRequest:
		return true
	case *pb.TxnRequest:
		return onlyReads(r)
	case *pb.PutRequest, *pb.DeleteRangeRequest, *pb.CompactionRequest, *pb.LeaseGrantRequest, *pb.LeaseRevokeRequest:
		return false
	}
	return true
}

func (c *Cluster) read(m *member, r proto.Message) (answer proto.Message, err error) {
	switch r := r.(type) {
	case *pb.RangeRequest:
		var found *pb.RangeResponse
		if found, err = c.state.ranges(r, c.rev(m)); err == nil {
			answer = found
		}
	case *pb.TxnRequest:
		var found *pb.TxnResponse
		if found, err = c.state.txn(r, c.rev(m)); err == nil {
			answer = found
		}
	case *pb.LeaseTimeToLiveRequest:
		answer = c.state.timeToLive(r)
	case *pb.LeaseLeasesRequest:
		all := &pb.LeaseLeasesResponse{Header: &pb.ResponseHeader{}}
		for _, id := range slices.Sorted(maps.Keys(c.state.leases)) {
			all.Leases = append(all.Leases, &pb.LeaseStatus{ID: id})
		}
		answer = all
	case *pb.AuthStatusRequest:
		answer = &pb.AuthStatusResponse{Header: &pb.ResponseHeader{}}
	case *pb.StatusRequest:
		answer = &pb.StatusResponse{Header: &pb.ResponseHeader{}, Version: "3.7.3", Leader: uint64(c.leader + 1), RaftTerm: m.term, RaftIndex: uint64(len(c.log))}
	case *pb.MemberListRequest:
		all := &pb.MemberListResponse{Header: &pb.ResponseHeader{}}
		for _, m := range c.members {
			all.Members = append(all.Members, &pb.Member{ID: uint64(m.id + 1)})
		}
		answer = all
	default:
		return nil, status.Errorf(codes.Unimplemented, "the imitation knows no %T", r)
	}
	return c.fill(m, answer), err
}

func (l *lessor) timeToLive(r *pb.LeaseTimeToLiveRequest) *pb.LeaseTimeToLiveResponse {
	found := l.leases[r.ID]
	if found == nil {
		return &pb.LeaseTimeToLiveResponse{Header: &pb.ResponseHeader{}, ID: r.ID, TTL: -1}
	}
	answer := &pb.LeaseTimeToLiveResponse{Header: &pb.ResponseHeader{}, ID: r.ID, TTL: int64(time.Until(found.expiry).Seconds()), GrantedTTL: found.ttl}
	if r.Keys {
		for _, key := range slices.Sorted(maps.Keys(found.keys)) {
			answer.Keys = append(answer.Keys, []byte(key))
		}
	}
	return answer
}

// fill completes the header of an answer, as the member that sends it does.
func (c *Cluster) fill(m *member, r proto.Message) proto.Message {
	if r == nil {
		return nil
	}
	h, was := c.header(m), r.(interface{ GetHeader() *pb.ResponseHeader }).GetHeader()
	was.ClusterId, was.MemberId, was.RaftTerm = h.ClusterId, h.MemberId, h.RaftTerm
	if was.Revision == 0 {
		was.Revision = h.Revision
	}
	return r
}

// Leases lists all leases.
func (c *Cluster) Leases() []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.state.leases))
}

// Watches lists the keys of all watches.
func (c *Cluster) Watches() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		for _, s := range m.streams {
			for _, w := range s.watches {
				if !w.dead {
					all = append(all, w.key)
				}
			}
		}
	}
	return all
}
