package memcached

import (
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// casNumbers are the numbers that the server has given to what we saw last. A number never comes again as long as the server
// runs.
type casNumbers struct{ storekit.Seen[casNumber] }

type casNumber struct {
	memory  *memory
	version register.Version
	cas     uint64
}

func (s *casNumbers) put(m *memory, key string, v register.Version, cas uint64) {
	if v.IsZero() || cas == 0 {
		s.Forget(key)
		return
	}
	s.Put(key, casNumber{m, v, cas})
}

// of returns the number of a version; 0 if it is not known.
func (s *casNumbers) of(m *memory, key string, v register.Version) uint64 {
	if at := s.Of(key); at.memory == m && at.version == v {
		return at.cas
	}
	return 0
}
