package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

type session struct {
	driver   *Driver
	id       int64
	ctx      context.Context // ends with the session
	end      context.CancelFunc
	deadline atomic.Pointer[time.Time]

	mu       sync.Mutex
	joins    int64
	epoch    int64
	watches  map[string]*watch
	amending map[string]int          // of each node, by its first ID: amendments under way
	cleanups map[string]int          // of each contender: how many there have been
	nearest  map[driver.Token]string // of those who wait: whom they saw right ahead when they looked
}

func newSession(d *Driver) *session {
	s := &session{driver: d, watches: make(map[string]*watch), nearest: make(map[driver.Token]string), amending: make(map[string]int), cleanups: make(map[string]int)}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s
}

func (s *session) service() *Service { return s.driver.service }

func (s *session) profile() Profile { return s.service().cfg.Profile }

func (s *session) Done() <-chan struct{} { return s.ctx.Done() }

func (s *session) Deadline() time.Time { return *s.deadline.Load() }

// renewed moves the deadline: the service has heard us at the time of sending or later. A tenth is left for clocks
// that run apart.
func (s *session) renewed(sent time.Time) {
	ttl := s.service().cfg.TTL
	deadline := sent.Add(ttl - ttl/10)
	for {
		old := s.deadline.Load()
		if old != nil && !deadline.After(*old) {
			return
		}
		if s.deadline.CompareAndSwap(old, &deadline) {
			return
		}
	}
}

// renew keeps the session alive. After a renewal that failed it tries again soon.
func (s *session) renew() {
	defer s.driver.cleanups.Done()
	defer s.retire()
	every := s.service().cfg.TTL / 3
	for next := every; pause(s.ctx, next); {
		sent := time.Now()
		var alive bool
		err := s.driver.do(s.ctx, Request{Session: s.id, Op: "renew", Upkeep: true}, func() { alive = s.service().renew(s.id) })
		switch {
		case err != nil:
			next = every / 10
		case !alive:
			s.end()
			return
		default:
			s.renewed(sent)
			next = every
		}
	}
}

func (s *session) retire() {
	s.driver.mu.Lock()
	defer s.driver.mu.Unlock()
	delete(s.driver.sessions, s)
}

func (s *session) Close(ctx context.Context) error {
	defer s.end()
	_, err := s.insist(ctx, Request{Op: "close", Upkeep: true}, func() answer {
		s.service().close(s.id)
		return answer{}
	})
	if errors.Is(err, driver.ErrSessionEnded) {
		return nil
	}
	return err
}

func (s *session) Abandon() { s.end() }

// ask sends a request once. An error is ctx's, ErrSessionEnded or errUnknown: then nobody knows what became of it.
func (s *session) ask(ctx context.Context, r Request, apply func() answer) (answer, error) {
	if s.ctx.Err() != nil {
		return answer{}, driver.ErrSessionEnded
	}
	r.Session = s.id
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	got := new(answer) // a late answer is written to it when nobody reads it any more
	err := s.driver.do(asking, r, func() { *got = apply() })
	switch {
	case s.ctx.Err() != nil:
		return answer{}, driver.ErrSessionEnded
	case err != nil && ctx.Err() != nil:
		return answer{}, ctx.Err()
	case err != nil:
		return answer{}, errUnknown
	case got.expired:
		s.end()
		return answer{}, driver.ErrSessionEnded
	}
	return *got, nil
}

var errUnknown = errors.New("memory: no answer")

// insist sends a request that may be repeated until it is answered.
func (s *session) insist(ctx context.Context, r Request, apply func() answer) (answer, error) {
	for {
		a, err := s.ask(ctx, r, apply)
		if err != errUnknown {
			return a, err
		}
		if !pause(ctx, s.driver.timeout/20) {
			return answer{}, ctx.Err()
		}
	}
}

// background runs a clean-up that outlives its caller. It ends with the session at the latest.
func (s *session) background(caller context.Context, f func(ctx context.Context)) {
	name := nameOf(caller)
	s.mu.Lock()
	s.cleanups[name]++
	ctx := WithName(s.ctx, fmt.Sprintf("%s'%d", name, s.cleanups[name]))
	s.mu.Unlock()
	s.driver.mu.Lock()
	defer s.driver.mu.Unlock()
	if s.ctx.Err() != nil || s.driver.closed {
		return // its nodes go with it
	}
	s.driver.cleanups.Go(func() { f(ctx) })
}
