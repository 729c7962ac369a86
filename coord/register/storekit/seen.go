package storekit

import "sync"

// maxSeen bounds what a Seen has. What is missing costs a read.
const maxSeen = 4096

// Seen is what a store has seen last of its registers, such as the numbers that the server has given to them, so that the next
// swap need not read first. It has at most 4,096 of them, and then begins anew. The zero Seen is empty.
type Seen[At any] struct {
	mu  sync.Mutex
	all map[string]At
}

// Of returns what was put in for a key, or the zero At.
func (s *Seen[At]) Of(key string) At {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[key]
}

// Put takes in what was seen.
func (s *Seen[At]) Put(key string, at At) { s.PutIf(key, at, func(At) bool { return true }) }

// PutIf takes it in unless counts says, of what was put in last, that this is older.
func (s *Seen[At]) PutIf(key string, at At, counts func(last At) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !counts(s.all[key]) {
		return
	}
	if s.all == nil || len(s.all) >= maxSeen { // whoever has more to do than that starts anew
		s.all = make(map[string]At)
	}
	s.all[key] = at
}

// Forget is called when nothing stands in a register.
func (s *Seen[At]) Forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, key)
}

// Clear forgets all, for when what was seen means nothing any more.
func (s *Seen[At]) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = nil
}
