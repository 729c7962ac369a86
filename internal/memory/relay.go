package memory

// relay is the member that serves a link while it is cut off from the others. As a follower does for a while, it answers
// renewals by itself; of what the others must agree to, or have to tell, nothing passes.
type relay struct {
	heard  map[int64]bool // sessions that it has answered
	events []func()       // what the others had to tell
}

// Strand cuts the member that serves a link off from the others, until heal or Reconnect. It is for ZooKeeper: an etcd
// member asks the others even for a renewal.
func (s *Service) Strand(link string) (heal func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	relay := &relay{heard: make(map[int64]bool)}
	s.stranded[link] = relay
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.stranded[link] == relay {
			s.rejoin(link)
			for _, tell := range relay.events {
				tell()
			}
		}
	}
}

// rejoin has the others hear of those whose renewals were answered.
func (s *Service) rejoin(link string) {
	relay := s.stranded[link]
	if relay == nil {
		return
	}
	delete(s.stranded, link)
	for id := range relay.heard {
		s.prolong(id)
	}
}

// reach carries out a request, and reports whether there is an answer.
func (s *Service) reach(r Request, apply func()) bool {
	s.mu.Lock()
	relay := s.stranded[r.Link]
	if relay != nil && r.Op == renewal {
		relay.heard[r.Session] = true
	}
	s.mu.Unlock()
	if relay == nil {
		apply()
	}
	return relay == nil || r.Op == renewal
}
