package memcached

import (
	"sync"

	"github.com/turnwise/turnwise/coord/register"
)

// sights are the numbers that the server has given to what we saw last, so that the next swap need not read first. A number
// never comes again as long as the server runs, and is used only on connections that lead to that run.
type sights struct {
	mu  sync.Mutex
	all map[string]sight
}

type sight struct {
	memory  *memory
	version register.Version
	cas     uint64
}

// maxSights bounds what is remembered. Whoever has more to do than that starts anew: a sight that is missing costs a read.
const maxSights = 4096

func (s *sights) note(m *memory, key string, v register.Version, cas uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.IsZero() || cas == 0 {
		delete(s.all, key)
		return
	}
	if s.all == nil || len(s.all) >= maxSights {
		s.all = make(map[string]sight)
	}
	s.all[key] = sight{m, v, cas}
}

func (s *sights) number(m *memory, key string, v register.Version) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.all[key]; at.memory == m && at.version == v {
		return at.cas
	}
	return 0
}

// clear forgets all, since a server that was restarted counts from the beginning.
func (s *sights) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = nil
}
