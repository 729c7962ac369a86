//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Store keeps registers in a directory. It is a [register.Presence].
type Store struct {
	config
	path  string
	place atomic.Pointer[place]

	mu     sync.Mutex
	closed bool
	ears   map[*ear]struct{}
	kept   map[*keeping]struct{}

	closing context.Context // ends when the store is closed
	close   context.CancelFunc
	running sync.WaitGroup
}

var _ register.Presence = (*Store)(nil)

// errClosed is what calls of a closed store return.
var errClosed = fmt.Errorf("file: %w", storekit.ErrClosed)

// Strength returns what files promise.
func (s *Store) Strength() driver.Strength { return s.strength() }

// enter returns the place, for a call that leaves it when it is done.
func (s *Store) enter() (*place, error) {
	for {
		p := s.place.Load()
		if p == nil {
			return nil, errClosed
		}
		if !p.use() {
			continue // Memory has put another in its place, or the store was closed
		}
		if p.forgot.Load() {
			p.leave()
			return nil, p.forgotten()
		}
		return p, nil
	}
}

// Close frees what the store uses. Keys that are kept stay kept until they are released or the process ends, since work may
// go on under them. Calls that are under way end as they would have.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	var all []*ear
	for e := range s.ears {
		all = append(all, e)
	}
	s.mu.Unlock()
	s.close()
	s.running.Wait()
	for _, e := range all {
		e.stop()
	}
	s.place.Swap(nil).leave()
	return nil
}

// lookEvery is how often a store looks whether the directory, and what it has in it, is still there.
const lookEvery = 500 * time.Millisecond

// keepChecking finds out what no call does: that the directory was removed while nobody called the store, or that somebody has
// removed a pipe, or a file by which a key is kept.
func (s *Store) keepChecking() {
	if p, err := s.enter(); err == nil {
		p.sweep(s.closing)
		p.leave()
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.closing.Done():
			return
		case <-ticker.C:
			s.checkOnce()
		}
	}
}

func (s *Store) checkOnce() {
	p, err := s.enter()
	if err == nil {
		defer p.leave()
		p.settleDebts()
		part := p.partHasGone()
		switch {
		case part != "":
			s.Log.Error("file: a directory within was moved or replaced while it was in use", "dir", part)
			err = p.disown()
		case s.keptIsGone(p):
			s.Log.Error("file: a file by which a session is kept was removed", "dir", s.path)
			err = p.disown()
		}
		if err == nil {
			err = p.check()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.ears {
		switch {
		case errors.Is(err, register.ErrForgot):
			e.miss()
		case err == nil:
			e.tend(p)
		}
	}
}
