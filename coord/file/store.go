//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
)

// Store keeps registers in a directory. It is a [register.Keeper].
type Store struct {
	path   string
	config *config
	place  atomic.Pointer[place]

	mu        sync.Mutex
	closed    bool
	listeners map[*listener]struct{}
	kept      map[*keeping]struct{}

	closing context.Context // ends when the store is closed
	close   context.CancelFunc
	running sync.WaitGroup
}

var _ register.Keeper = (*Store)(nil)

// errClosed is what calls of a closed store return.
var errClosed = fmt.Errorf("file: the store is closed: %w", os.ErrClosed)

// Open opens a directory, and makes it if there is none. The directory above must be there.
func Open(ctx context.Context, dir string, opts ...Option) (*Store, error) {
	s, err := opened(ctx, dir, opts)
	if err == nil {
		return s, nil
	}
	if !errors.Is(err, driver.ErrDenied) {
		err = fmt.Errorf("%w: %w", coord.ErrUnavailable, err)
	}
	return nil, fmt.Errorf("turnwise: %w", err)
}

func opened(ctx context.Context, dir string, opts []Option) (*Store, error) {
	if dir == "" {
		return nil, denied("the directory has no name: give one, such as /var/lib/app/locks")
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, refusal("find the directory "+dir, err)
	}
	s := &Store{
		path: path, config: configure(opts),
		listeners: make(map[*listener]struct{}), kept: make(map[*keeping]struct{}),
	}
	p, err := openPlace(ctx, path, s.config)
	if err != nil {
		return nil, err
	}
	s.place.Store(p)
	s.closing, s.close = context.WithCancel(context.Background())
	s.running.Go(s.watch)
	return s, nil
}

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
			return nil, p.lost()
		}
		return p, nil
	}
}

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
	p, err := openPlace(ctx, s.path, s.config)
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
	for l := range s.listeners {
		l.move()
	}
	s.config.log.Warn("turnwise: the directory was replaced", "dir", s.path)
	return p.remembers(), nil
}

// Strength returns what files promise.
func (s *Store) Strength() driver.Strength {
	if s.config != nil && s.config.sync {
		return driver.Strength{Restart: driver.Remembers, Failover: driver.NoFailover, Tokens: driver.RiseForEver, WakeUp: driver.Told}
	}
	return driver.Strength{Restart: driver.ForgetsOpenly, Failover: driver.NoFailover, WakeUp: driver.Told}
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
	var all []*listener
	for l := range s.listeners {
		all = append(all, l)
	}
	s.mu.Unlock()
	s.close()
	s.running.Wait()
	for _, l := range all {
		l.stop()
	}
	s.place.Swap(nil).leave()
	return nil
}

// trouble makes an error of what the system says. Where it can, it adds what to do.
func trouble(what string, err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("file: %s: the disk is full, and nothing was changed: make room: %w", what, err)
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return fmt.Errorf("file: %s: there are too many open files: raise the limit (ulimit -n): %w", what, err)
	}
	return refusal(what, err)
}

// lookEvery is how often a store looks whether the directory, and what it has in it, is still there.
const lookEvery = 500 * time.Millisecond

// watch finds out what no call does: that the directory was removed while nobody called the store, or that somebody has
// removed a pipe, or a file by which a key is kept.
func (s *Store) watch() {
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
			s.look()
		}
	}
}

func (s *Store) look() {
	p, err := s.enter()
	if err == nil {
		defer p.leave()
		p.settleDebts()
		if s.keptIsGone(p) {
			s.config.log.Error("turnwise: a file by which a session is kept was removed", "dir", s.path)
			err = p.disown()
		}
		if err == nil {
			err = p.check()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		switch {
		case errors.Is(err, register.ErrForgot):
			l.look()
		case err == nil:
			l.tend(p)
		}
	}
}
