package etcdcluster

import (
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"
)

// Stream is a stream of watches at a member.
type Stream struct {
	c           *Cluster
	m           *member
	needsLeader bool
	send        func(*pb.WatchResponse)
	end         func(error)
	watches     []*watch // in the order in which they came
	next        int64
	over        bool
}

type watch struct {
	id       int64
	key, end string
	start    int64 // the revision that it was to begin at; 0: at what was then the next
	from     int64 // the first revision that it has not been told of
	behind   bool  // it began in the past: what has happened since is read now and then
	dead     bool  // it was ended by a compaction, and keeps its number until the client ends it, too
	prev     bool
	ignores  []pb.WatchCreateRequest_FilterType
	fragment bool
}

// catchUpEvery is how often a member tells watches that began in the past what has happened since.
const catchUpEvery = 100 * time.Millisecond

// Watch opens a stream. What is given to send must arrive in that order. end is called at most once, when the member ends
// the stream.
func (c *Cluster) Watch(id int, needsLeader bool, send func(*pb.WatchResponse), end func(error)) *Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &Stream{c: c, m: c.members[id], needsLeader: needsLeader, send: send, end: end}
	s.m.streams = append(s.m.streams, s)
	return s
}

// Close ends the stream of a client that has gone.
func (s *Stream) Close() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.leave()
}

func (s *Stream) leave() {
	s.over = true
	s.m.streams = slices.DeleteFunc(s.m.streams, func(other *Stream) bool { return other == s })
}

func (s *Stream) broken(err error) {
	if !s.over {
		s.leave()
		s.end(err)
	}
}

// Hear handles what the client has sent. If refusal is not nil, a watch that is asked for is refused with it.
func (s *Stream) Hear(r *pb.WatchRequest, refusal error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.hear(r, refusal)
}

func (s *Stream) hear(r *pb.WatchRequest, refusal error) {
	switch {
	case s.over:
	case s.m.asleep:
		s.m.stuck = append(s.m.stuck, stuck{time.Now(), func() { s.hear(r, refusal) }, func(error) {}})
	case s.needsLeader && s.c.leaderless(s.m):
		s.broken(rpctypes.ErrGRPCNoLeader)
	case r.GetCreateRequest() != nil:
		s.create(r.GetCreateRequest(), refusal)
	case r.GetCancelRequest() != nil:
		id := r.GetCancelRequest().WatchId
		if i := s.index(id); i >= 0 {
			s.watches = slices.Delete(s.watches, i, i+1)
			s.send(&pb.WatchResponse{Header: s.c.header(s.m), WatchId: id, Canceled: true})
		}
	case r.GetProgressRequest() != nil:
		if len(s.watches) > 0 && !slices.ContainsFunc(s.watches, func(w *watch) bool { return w.behind || w.start > s.c.rev(s.m) }) {
			s.send(&pb.WatchResponse{Header: s.c.header(s.m), WatchId: noWatch})
		}
	}
}

// noWatch is the number of a watch that was refused, and of messages about all watches.
const noWatch = -1

func (s *Stream) index(id int64) int {
	return slices.IndexFunc(s.watches, func(w *watch) bool { return w.id == id })
}

func (s *Stream) create(r *pb.WatchCreateRequest, refusal error) {
	now := s.c.rev(s.m)
	refuse := func(why error) {
		s.send(&pb.WatchResponse{Header: s.c.header(s.m), WatchId: noWatch, Created: true, Canceled: true, CancelReason: why.Error()})
	}
	key, end := string(r.Key), string(r.RangeEnd)
	if key == "" {
		key = "\x00"
	}
	switch {
	case r.StartRevision < 0:
		refuse(rpctypes.ErrCompacted)
		return
	case refusal != nil:
		refuse(refusal)
		return
	case end != "" && end != "\x00" && key >= end:
		refuse(errEmptyRange)
		return
	case r.WatchId != 0 && !s.c.cfg.Proxied && s.index(r.WatchId) >= 0:
		refuse(errSameNumber)
		return
	}
	w := &watch{id: r.WatchId, key: key, end: end, start: r.StartRevision, from: r.StartRevision, prev: r.PrevKv, ignores: r.Filters, fragment: r.Fragment}
	if w.id == 0 || s.c.cfg.Proxied {
		for s.index(s.next) >= 0 {
			s.next++
		}
		w.id = s.next
		s.next++
	}
	if w.from == 0 {
		w.from = now + 1
	}
	w.behind = w.from <= now
	s.watches = append(s.watches, w)
	s.send(&pb.WatchResponse{Header: s.c.header(s.m), WatchId: w.id, Created: true})
	if w.behind {
		time.AfterFunc(catchUpEvery, func() {
			s.c.mu.Lock()
			defer s.c.mu.Unlock()
			if i := s.index(w.id); !s.over && i >= 0 && s.watches[i] == w {
				s.catchUp(i)
			}
		})
	}
}

type reason string

func (r reason) Error() string { return string(r) }

const (
	errEmptyRange = reason("mvcc: watcher range is empty")
	errSameNumber = reason("mvcc: duplicate watch ID provided on the WatchStream")
)

func (s *Stream) catchUp(i int) {
	w := s.watches[i]
	if first := s.c.state.compacted; w.from < first {
		w.dead = true
		s.send(&pb.WatchResponse{Header: s.c.header(s.m), WatchId: w.id, Canceled: true, CompactRevision: first})
		return
	}
	w.behind = false
	s.report(w, s.c.rev(s.m))
}

// tell tells all watches what has happened up to a revision.
func (s *Stream) tell(now int64) {
	for _, w := range slices.Clone(s.watches) {
		if !w.behind {
			s.report(w, now)
		}
	}
}

func (s *Stream) report(w *watch, now int64) {
	store := s.c.state.store
	var events []*mvccpb.Event
	for _, e := range store.since(w.key, w.end, w.from-1, now) {
		if e.Type == mvccpb.Event_PUT && slices.Contains(w.ignores, pb.WatchCreateRequest_NOPUT) ||
			e.Type == mvccpb.Event_DELETE && slices.Contains(w.ignores, pb.WatchCreateRequest_NODELETE) {
			continue
		}
		said := &mvccpb.Event{Type: e.Type, Kv: clone(e.Kv)}
		created := e.Kv.CreateRevision == e.Kv.ModRevision
		if before := store.at(string(e.Kv.Key), e.Kv.ModRevision-1); w.prev && !created && before != nil && e.Kv.ModRevision > store.compacted {
			said.PrevKv = clone(before)
		}
		events = append(events, said)
	}
	w.from = max(w.from, now+1)
	if len(events) == 0 {
		return
	}
	header := s.c.header(s.m)
	header.Revision = now
	for _, part := range fragments(events, w.fragment) {
		part.Header, part.WatchId = header, w.id
		s.send(part)
	}
}

// fragments splits what is too large for one message, if the client wants it so.
func fragments(events []*mvccpb.Event, wanted bool) (all []*pb.WatchResponse) {
	for len(events) > 0 {
		part := &pb.WatchResponse{}
		size := 0
		for len(events) > 0 && (len(part.Events) == 0 || !wanted || size+proto.Size(events[0]) < maxRequest) {
			size += proto.Size(events[0])
			part.Events = append(part.Events, events[0])
			events = events[1:]
		}
		part.Fragment = len(events) > 0
		all = append(all, part)
	}
	return all
}
