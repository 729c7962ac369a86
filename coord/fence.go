package coord

import (
	"fmt"
	"sync"
)

// Fence guards something that holders of a line write to: it refuses tokens smaller than the greatest it has seen, so a
// holder that was paused past the end of its hold can do no harm. Keep one beside the thing it guards; if the thing's
// data outlives the process, store Last with it. The zero Fence has seen nothing.
type Fence struct {
	mu   sync.Mutex
	last Token
}

// NewFence returns a fence that has seen last.
func NewFence(last Token) *Fence { return &Fence{last: last} }

// Pass lets t through, or returns ErrStale if a greater token has passed before.
func (f *Fence) Pass(t Token) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t < f.last {
		return fmt.Errorf("turnwise: %w: %d, and %d has been seen", ErrStale, t, f.last)
	}
	f.last = t
	return nil
}

// Last returns the greatest token that has passed.
func (f *Fence) Last() Token {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}
