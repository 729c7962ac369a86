package memory

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Profile is the real service that a Service imitates.
type Profile int

const (
	ZooKeeper Profile = iota
	Etcd
)

func (p Profile) String() string {
	return [...]string{"zookeeper", "etcd"}[p]
}

// Config sets up a Service. Its zero value is a ZooKeeper that loses nothing.
type Config struct {
	Profile  Profile
	TTL      time.Duration // of sessions; zero: 10 s
	Network  Network       // nil: calls
	Replicas int           // all but the first follow only when CatchUp is called; zero: 1
	Rate     float64       // how much faster the service's clock runs than ours; zero: 1
}

// Service is the far side.
type Service struct {
	cfg Config

	mu       sync.Mutex
	rev      int64 // counts all changes; tokens are taken from it
	sessions map[int64]*remote
	replicas []*replica
	log      []change // what the last replica lacks
	logged   int64    // how many changes were logged before log[0]
	left     map[string]departure
	changes  map[string]chan struct{} // of lines that are observed; closed at the next change
	leftIDs  []string                 // of left, oldest first
	stranded map[string]*relay        // by link
	refusing string                   // a link that is refused the next watch
}

// remote is a session as the service knows it.
type remote struct {
	id     int64
	link   string
	expiry *time.Timer
	ends   time.Time // when the timer fires
	epoch  int64
	served *replica // answers its reads
	events func(event)
}

// replica is a copy of the lines, with the watches of the sessions that it serves.
type replica struct {
	state
	applied int64 // changes
	watches map[string]map[*remote]watched
}

// watched are the kinds of watch that a session has set on a node, each good for one event.
type watched struct{ data, life bool }

// departure is what is remembered of a node that has left.
type departure struct {
	rev  int64
	held bool
}

// rememberDepartures is how many departures the service remembers; for older ones the asker must look.
const rememberDepartures = 4096

// event is what the service tells a session unasked.
type event struct {
	what eventKind
	node string
	rev  int64
}

type eventKind int

const (
	nodeChanged eventKind = iota
	nodeGone
	sessionExpired
	reconnected
)

func (k eventKind) String() string {
	return [...]string{"changed", "gone", "expired", "reconnected"}[k]
}

// NewService starts a service.
func NewService(cfg Config) *Service {
	if cfg.TTL == 0 {
		cfg.TTL = 10 * time.Second
	}
	if cfg.Network == nil {
		cfg.Network = new(calls)
	}
	if cfg.Rate == 0 {
		cfg.Rate = 1
	}
	s := &Service{cfg: cfg, sessions: make(map[int64]*remote), left: make(map[string]departure),
		changes: make(map[string]chan struct{}), stranded: make(map[string]*relay)}
	for range max(cfg.Replicas, 1) {
		s.replicas = append(s.replicas, &replica{state: newState(), watches: make(map[string]map[*remote]watched)})
	}
	return s
}

// head is the replica that all changes go to.
func (s *Service) head() *replica { return s.replicas[0] }

func (s *Service) open(link string, tell func(event)) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rev++
	r := &remote{id: s.rev, link: link, served: s.replicas[int(s.rev)%len(s.replicas)], events: tell}
	s.sessions[r.id] = r
	r.expiry = time.AfterFunc(s.patience(r.id), func() { s.expire(r.id) })
	r.ends = time.Now().Add(s.patience(r.id))
	return r.id
}

// patience is how long a session may be silent. No two sessions expire at the same instant, so it is never left to
// chance whose nodes go first.
func (s *Service) patience(session int64) time.Duration {
	return time.Duration(float64(s.cfg.TTL)/s.cfg.Rate) + time.Duration(session)
}

// renew reports whether the session is alive.
func (s *Service) renew(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.prolong(id)
}

func (s *Service) prolong(id int64) bool {
	r := s.sessions[id]
	if r == nil {
		return false
	}
	r.ends = time.Now().Add(s.patience(id))
	return r.expiry.Reset(s.patience(id))
}

func (s *Service) expire(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.sessions[id]; r != nil {
		s.tell(r, event{what: sessionExpired})
	}
	s.end(id)
}

func (s *Service) close(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(id)
}

// end takes a session and its nodes away.
func (s *Service) end(id int64) {
	r := s.sessions[id]
	if r == nil {
		return
	}
	r.expiry.Stop()
	delete(s.sessions, id)
	var own []*stored
	for _, n := range s.head().nodes {
		if n.session == id {
			own = append(own, n)
		}
	}
	slices.SortFunc(own, func(a, b *stored) int { return int(a.Token - b.Token) })
	for _, n := range own {
		s.record(change{kind: gone, node: *n})
	}
	for _, rep := range s.replicas {
		for node, by := range rep.watches {
			delete(by, r)
			if len(by) == 0 {
				delete(rep.watches, node)
			}
		}
	}
}

// record makes a change at the first replica; the others follow when told to.
func (s *Service) record(c change) {
	s.rev++
	c.rev = s.rev
	if c.kind == gone {
		s.remember(c.node.ID, departure{s.rev, c.held})
	}
	if len(s.replicas) > 1 {
		s.log = append(s.log, c)
	}
	s.follow(s.head(), c)
	if observed := s.changes[c.node.Line]; observed != nil {
		close(observed)
		delete(s.changes, c.node.Line)
	}
}

// nextChange returns a channel that is closed when the line next changes.
func (s *Service) nextChange(line string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	observed := s.changes[line]
	if observed == nil {
		observed = make(chan struct{})
		s.changes[line] = observed
	}
	return observed
}

func (s *Service) remember(id string, d departure) {
	s.left[id] = d
	s.leftIDs = append(s.leftIDs, id)
	if len(s.leftIDs) > rememberDepartures {
		delete(s.left, s.leftIDs[0])
		s.leftIDs = s.leftIDs[1:]
	}
}

// follow applies a change to a replica and fires its watches.
func (s *Service) follow(rep *replica, c change) {
	rep.apply(c)
	rep.applied++
	id := c.node.ID
	if c.kind == amended {
		id = c.was
	}
	leaves := c.kind == gone || c.was != "" && c.was != c.node.ID
	by := rep.watches[id]
	if len(by) == 0 {
		return
	}
	for _, r := range inOrder(by) {
		w := by[r]
		switch {
		case leaves && c.kind == amended:
			s.tell(r, event{what: nodeGone, node: id, rev: c.rev})
		case c.kind == amended && w.data:
			s.tell(r, event{what: nodeChanged, node: c.node.ID, rev: c.rev})
			by[r] = watched{life: w.life}
		case c.kind == gone && s.cfg.Profile == ZooKeeper && c.held && w.data && w.life:
			s.tell(r, event{what: nodeChanged, node: c.node.ID, rev: c.rev})
			s.tell(r, event{what: nodeGone, node: c.node.ID, rev: c.rev})
		case c.kind == gone && s.cfg.Profile == ZooKeeper && c.held && w.data:
			s.tell(r, event{what: nodeChanged, node: c.node.ID, rev: c.rev})
		case c.kind == gone:
			s.tell(r, event{what: nodeGone, node: c.node.ID, rev: c.rev})
		}
	}
	if leaves {
		delete(rep.watches, id)
	}
}

func inOrder(by map[*remote]watched) []*remote {
	all := make([]*remote, 0, len(by))
	for r := range by {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *remote) int { return int(a.id - b.id) })
	return all
}

func (s *Service) tell(r *remote, e event) {
	if relay := s.stranded[r.link]; relay != nil {
		relay.events = append(relay.events, func() { s.tell(r, e) })
		return
	}
	s.cfg.Network.Tell(Event{Link: r.link, Session: r.id, What: e.what.String(), Node: e.node, Own: ownerOf(e.node) == r.id}, func() { r.events(e) })
}

// CatchUp applies at most n further changes to a replica, and returns how many it still lacks.
func (s *Service) CatchUp(replica, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.catchUp(s.replicas[replica], s.replicas[replica].applied+int64(n))
}

func (s *Service) catchUp(rep *replica, to int64) int {
	if rep == s.head() {
		return 0
	}
	for rep.applied < min(to, s.head().applied) {
		s.follow(rep, s.log[rep.applied-s.logged])
	}
	slowest := rep.applied
	for _, r := range s.replicas {
		slowest = min(slowest, r.applied)
	}
	s.log = s.log[slowest-s.logged:]
	s.logged = slowest
	return int(s.head().applied - rep.applied)
}

// Reconnect moves the sessions of a link to the next replica, as after a broken connection. It is up to the Network to
// drop events on their way.
func (s *Service) Reconnect(link string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rejoin(link)
	for _, r := range s.ofLink(link) {
		old := r.served
		i := slices.Index(s.replicas, old)
		r.served = s.replicas[(i+1)%len(s.replicas)]
		s.catchUp(r.served, old.applied) // never back in time
		for node, by := range old.watches {
			delete(by, r)
			if len(by) == 0 {
				delete(old.watches, node)
			}
		}
		s.tell(r, event{what: reconnected})
	}
}

// Expire ends one session out of the blue.
func (s *Service) Expire(sess driver.Session) { s.expire(sess.(*session).id) }

// ExpireLink ends the sessions of a link out of the blue.
func (s *Service) ExpireLink(link string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.ofLink(link) {
		s.tell(r, event{what: sessionExpired})
		s.end(r.id)
	}
}

func (s *Service) ofLink(link string) []*remote {
	var all []*remote
	for _, r := range s.sessions {
		if r.link == link {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *remote) int { return int(a.id - b.id) })
	return all
}

// CutOff separates a driver from a Service that has no Network of its own, until heal.
func (s *Service) CutOff(link string) (heal func()) {
	return s.cfg.Network.(*calls).cutOff(link)
}

// Nodes returns a line as the first replica has it.
func (s *Service) Nodes(line string) []driver.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head().list(line)
}

// Names returns the lines that have a node.
func (s *Service) Names(prefix string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head().names(prefix)
}

// Sessions returns how many sessions are alive.
func (s *Service) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Expiry returns when the session that made a node will end if nothing more is heard from it; zero: it has ended.
func (s *Service) Expiry(node string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.sessions[ownerOf(node)]; r != nil {
		return r.ends
	}
	return time.Time{}
}

// LinkOf returns the link of the session that made a node; "" if the session has ended.
func (s *Service) LinkOf(node string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.sessions[ownerOf(node)]; r != nil {
		return r.link
	}
	return ""
}

// Watches returns how many watches are set, at all replicas together.
func (s *Service) Watches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, rep := range s.replicas {
		for _, by := range rep.watches {
			n += len(by)
		}
	}
	return n
}

// Refuse has the next watch that a link asks for refused.
func (s *Service) Refuse(link string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusing = link
}

// Remove takes a node away, as an operator would, and reports whether it was there.
func (s *Service) Remove(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.head().get(id)
	if n != nil {
		s.record(change{kind: gone, node: *n})
	}
	return n != nil
}

// Write changes what a node carries, as an operator would.
func (s *Service) Write(id string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.head().get(id); n != nil {
		next := *n
		next.Data, next.version = bytes.Clone(data), n.version+1
		s.record(change{kind: amended, node: next, was: n.ID})
	}
}

// remove is what a driver can ask for: a node goes by the ID that it has now.
func (s *Service) remove(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.head().exactly(id)
	if n != nil {
		s.record(change{kind: gone, node: *n})
	}
	return n != nil
}

// Close ends all sessions.
func (s *Service) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.sessions {
		s.tell(r, event{what: sessionExpired})
		s.end(id)
	}
}

// ownerOf returns the session that made a node, from its ID.
func ownerOf(node string) (session int64) {
	digits, _, _ := strings.Cut(node, "-")
	session, _ = strconv.ParseInt(digits, 16, 64)
	return session
}

func nodeID(session, n int64) string { return fmt.Sprintf("%x-%d", session, n) }
