//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

// Memory names the directory and the run of the machine. Files outlast all processes, and all that was lost when the machine
// stopped belonged to processes that are dead. So nobody needs to wait.
func (s *Store) Memory(ctx context.Context) (register.Memory, error) {
	if err := ctx.Err(); err != nil {
		return register.Memory{}, err
	}
	p, err := s.enter()
	if err == nil {
		defer p.leave()
		err = p.check()
	}
	if errors.Is(err, register.ErrForgot) {
		return s.reopen(ctx)
	}
	if err != nil {
		return register.Memory{}, err
	}
	return p.remembers(), nil
}

// reopen opens the directory that is there now.
func (s *Store) reopen(ctx context.Context) (register.Memory, error) {
	p, err := openPlace(ctx, s.path, &s.config)
	if err != nil {
		return register.Memory{}, err
	}
	p.since = time.Now() // others, who have not noticed yet, may still go by what there was before
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		p.leave()
		return register.Memory{}, errClosed
	}
	s.place.Swap(p).leave()
	for e := range s.ears {
		e.move()
	}
	s.Log.Warn("file: the directory was replaced", "dir", s.path)
	return p.remembers(), nil
}

// remembers says what is remembered here, and for how long.
func (p *place) remembers() register.Memory {
	m := register.Memory{ID: p.memory, For: register.Forever}
	if !p.since.IsZero() {
		m.For = time.Since(p.since) // negative if the clock was set back
	}
	return m
}
