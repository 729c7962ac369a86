package memory

import (
	"bytes"

	"github.com/turnwise/turnwise/coord/driver"
)

// answer is what the service says to a request of a session.
type answer struct {
	expired bool          // the session is over, and nothing was done
	denied  bool          // watching: it may not, just now
	refused bool          // joining: the epoch is past; amending: the version is another one now
	busy    bool          // joining as a try: somebody is in sight
	found   bool          // the node asked about stands
	node    stored        // that node, if found or made
	last    bool          // of a node that joined: nobody stands behind it
	ahead   []driver.Node // those ahead of it
	held    bool          // of a departure: as the holder
	epoch   int64
}

// serve runs a request of a session, unless the session is over.
func (s *Service) serve(id int64, f func(r *remote, a *answer)) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.sessions[id]
	if r == nil {
		return answer{expired: true}
	}
	var a answer
	f(r, &a)
	a.node.Data = bytes.Clone(a.node.Data) // a service shares no memory with those it answers
	return a
}

// join puts a node at the end of its line. The look comes with it.
func (s *Service) join(session, epoch int64, id string, e driver.Entry) answer {
	return s.serve(session, func(r *remote, a *answer) {
		if s.cfg.Profile == Etcd && epoch != r.epoch {
			a.refused, a.epoch = true, r.epoch
			return
		}
		head := s.head()
		if n := head.get(id); n != nil { // etcd: create if absent
			a.found, a.node = true, *n
			a.last = head.last(n.Line, n.Token)
			a.ahead = head.ahead(n.Line, n.Token, e.Sight)
			return
		}
		if e.InVain(head.ahead(e.Line, driver.Token(s.rev+1), e.Sight)) {
			a.busy = true
			return
		}
		n := stored{session: session, Node: driver.Node{
			Line: e.Line, ID: id, Kind: e.Kind, Token: driver.Token(s.rev + 1), Owner: e.Owner, Data: bytes.Clone(e.Data)}}
		s.record(change{kind: joined, node: n})
		rep := s.reads(r)
		s.catchUp(rep, s.head().applied)
		a.found, a.node = true, n
		a.last = rep.last(n.Line, n.Token)
		a.ahead = rep.ahead(n.Line, n.Token, e.Sight)
	})
}

// reads returns the replica that answers the session's looks.
func (s *Service) reads(r *remote) *replica {
	if s.cfg.Profile == Etcd {
		return s.head()
	}
	return r.served
}

// find tells whether a node stands now.
func (s *Service) find(session int64, id string) answer {
	return s.serve(session, func(r *remote, a *answer) {
		rep := s.reads(r)
		s.catchUp(rep, s.head().applied)
		if n := rep.get(id); n != nil {
			a.found, a.node = true, *n
		}
	})
}

// bump begins another epoch of the session: joins of past epochs that are still under way will be refused.
func (s *Service) bump(session int64) answer {
	return s.serve(session, func(r *remote, a *answer) {
		r.epoch++
		a.epoch = r.epoch
	})
}

// look returns what is ahead of a node.
func (s *Service) look(session int64, id string, sight driver.Sight) answer {
	return s.serve(session, func(r *remote, a *answer) {
		rep := s.reads(r)
		if n := rep.get(id); n != nil {
			a.found, a.node = true, *n
			a.ahead = rep.ahead(n.Line, n.Token, sight)
		}
	})
}

// watch sets watches on a node if it stands.
func (s *Service) watch(session int64, id string, w watched) answer {
	return s.serve(session, func(r *remote, a *answer) {
		if a.denied = s.refusing == r.link; a.denied {
			s.refusing = ""
			return
		}
		rep := s.reads(r)
		n := rep.exactly(id)
		if n == nil {
			return
		}
		a.found, a.node = true, *n
		by := rep.watches[id]
		if by == nil {
			by = make(map[*remote]watched)
			rep.watches[id] = by
		}
		by[r] = watched{by[r].data || w.data, by[r].life || w.life}
	})
}

// handedOver tells whether a node left as the holder, and whether the asker's own node still stands.
func (s *Service) handedOver(session int64, me, ahead string) answer {
	return s.serve(session, func(_ *remote, a *answer) {
		a.found = s.head().get(me) != nil
		a.held = s.left[ahead].held
	})
}

// leave takes a node away if it stands.
func (s *Service) leave(session int64, id string, held bool) answer {
	return s.serve(session, func(_ *remote, a *answer) {
		if n := s.head().get(id); n != nil {
			s.record(change{kind: gone, node: *n, held: held})
		}
	})
}

// amend changes a node if its version is the one that the session knows.
func (s *Service) amend(session int64, id string, version int, kind string, data []byte) answer {
	return s.serve(session, func(_ *remote, a *answer) {
		n := s.head().get(id)
		if n == nil {
			return
		}
		a.found, a.node = true, *n
		if n.version != version {
			a.refused = true
			return
		}
		next := *n
		next.Kind, next.Data, next.version = kind, bytes.Clone(data), version+1
		if s.cfg.Profile == ZooKeeper && trustsMark(n.Kind) {
			// A change to such a node would look like the first half of its owner's departure: so another node takes its place.
			next.ID = renamed(n.ID, next.version)
		}
		s.record(change{kind: amended, node: next, was: n.ID})
		a.node = next
	})
}
