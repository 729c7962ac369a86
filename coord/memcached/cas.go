package memcached

import (
	"sync"

	"github.com/turnwise/turnwise/coord/register"
)

// casNumbers are the numbers that the server has given to what we saw last, so that the next swap need not read first. A
// number never comes again as long as the server runs.
type casNumbers struct {
	mu  sync.Mutex
	all map[string]casNumber
}

type casNumber struct {
	memory  *memory
	version register.Version
	cas     uint64
}

// maxNumbers bounds what is remembered. Whoever has more to do than that starts anew: a number that is missing costs a read.
const maxNumbers = 4096

func (s *casNumbers) note(m *memory, key string, v register.Version, cas uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.IsZero() || cas == 0 {
		delete(s.all, key)
		return
	}
	if s.all == nil || len(s.all) >= maxNumbers {
		s.all = make(map[string]casNumber)
	}
	s.all[key] = casNumber{m, v, cas}
}

// of returns the number of a version; 0 if it is not known.
func (s *casNumbers) of(m *memory, key string, v register.Version) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.all[key]; at.memory == m && at.version == v {
		return at.cas
	}
	return 0
}

// clear forgets all, since a server that was restarted counts from the beginning.
func (s *casNumbers) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = nil
}
