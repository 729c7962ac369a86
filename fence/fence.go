package fence

import (
	"context"
	"sync"

	"github.com/turnwise/turnwise/coord"
)

// Fence remembers the greatest stamp of each line.
type Fence interface {
	// Pass lets s through, or returns coord.ErrStale if a greater stamp of the line has passed before. After any other
	// error nobody knows whether s has passed, and the caller must not write.
	Pass(ctx context.Context, line string, s Stamp) error
}

// Local is a Fence for what lives in this process, and forgets when that ends. It keeps one stamp for each line, for ever.
// The zero Local has seen nothing. It is safe for concurrent use. If the data outlives the process, write a [Stamp] beside
// it instead, and compare with [Stamp.After].
type Local struct {
	mu   sync.Mutex
	last map[string]Stamp
}

// Pass lets s through, or returns coord.ErrStale if a greater stamp of the line has passed before.
func (f *Local) Pass(_ context.Context, line string, s Stamp) error {
	if err := coord.CheckName(line); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := s.After(f.last[line]); err != nil {
		return &coord.Error{Op: "pass", Line: line, Err: err}
	}
	if f.last == nil {
		f.last = make(map[string]Stamp)
	}
	f.last[line] = s
	return nil
}
