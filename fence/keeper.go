package fence

import (
	"context"
	"sync"

	"github.com/turnwise/turnwise/coord"
)

// Keeper remembers the greatest stamp of each line.
type Keeper interface {
	// Pass lets s through, or returns coord.ErrStale if a greater stamp of the line has passed before. After any other
	// error nobody knows whether s has passed, and the caller must not write.
	Pass(ctx context.Context, line string, s Stamp) error
}

// Memory is a Keeper that forgets when the process ends. It keeps one stamp for each line, for ever. The zero Memory has
// seen nothing. It is safe for concurrent use.
type Memory struct {
	mu   sync.Mutex
	last map[string]Stamp
}

// Pass lets s through, or returns coord.ErrStale if a greater stamp of the line has passed before.
func (m *Memory) Pass(_ context.Context, line string, s Stamp) error {
	if err := coord.CheckName(line); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := s.After(m.last[line]); err != nil {
		return &coord.Error{Op: "pass", Line: line, Err: err}
	}
	if m.last == nil {
		m.last = make(map[string]Stamp)
	}
	m.last[line] = s
	return nil
}
