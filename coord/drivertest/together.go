package drivertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
)

var together = []scenario{
	{name: "goroutines take turns on one node", run: turnsOnOneNode},
	{name: "those who wait for a turn survive the session", run: turnsAfterALoss},
	{name: "many of several processes", run: manyTogether},
	{name: "readers of a process and a writer of another", run: readersTogether},
}

// longer than anything that a scenario does, so that only an end of the node ends its turns
const aWhile = time.Minute

func sameNode(a, b *coord.Hold) bool { return a.Token()>>coord.TurnBits == b.Token()>>coord.TurnBits }

// asked waits until n callers of a client wait.
func (s *scene) asked(c *coord.Client, n int) {
	s.Helper()
	s.eventually(s.patience, fmt.Sprintf("%d wait", n), func() bool { return c.Health().Waiters == n })
}

func turnsOnOneNode(s *scene) {
	cs := s.clients(2)
	m := mutex.New(cs[0], s.line, mutex.Together(aWhile))
	first := s.must(m.Lock(s.ctx))
	var behind []<-chan coord.Result
	for i := range 5 {
		behind = append(behind, taking(func() (*coord.Hold, error) { return m.Lock(s.ctx) }))
		s.asked(cs[0], i+1)
	}
	stranger := taking(func() (*coord.Hold, error) { return mutex.New(cs[1], s.line).Lock(s.ctx) })
	s.queued(2)
	s.release(first)
	last := first
	for _, next := range behind {
		h := s.granted(soon, next, "the one before has released")
		if !sameNode(first, h) || h.Token() <= last.Token() {
			s.Errorf("token %d after %d: want another turn of the same node", h.Token(), last.Token())
		}
		s.release(h)
		last = h
	}
	s.waits(stranger, "somebody behind a node that stays")
	pinned := s.must(m.Lock(s.ctx))
	pinned.Pin()
	s.release(pinned)
	h := s.granted(soon, stranger, "the node was pinned, and is gone")
	if h.Token() <= pinned.Token() {
		s.Errorf("token %d after %d", h.Token(), pinned.Token())
	}
	s.release(h)
	s.gone(s.line)
}

func turnsAfterALoss(s *scene) {
	c, l, w := s.watchedClient()
	s.needs("expire a session", l.Expire == nil)
	m := mutex.New(c, s.line, mutex.Together(aWhile))
	held := s.must(m.Lock(s.ctx))
	first := taking(func() (*coord.Hold, error) { return m.Lock(s.ctx) })
	s.asked(c, 1)
	second := taking(func() (*coord.Hold, error) { return m.Lock(s.ctx) })
	s.asked(c, 2)
	l.Expire(s, w.last())
	h := s.granted(soon, first, "the session has ended, and they stand again")
	if held.Err() == nil || h.Token() <= held.Token() || sameNode(held, h) {
		s.Errorf("token %d after %d, which says %v", h.Token(), held.Token(), held.Err())
	}
	if err := held.Release(); err == nil {
		s.Error("a hold that was lost is released without an error")
	}
	s.waits(second, "somebody behind a turn")
	s.release(h)
	last := s.granted(soon, second, "the one before has released")
	last.Pin()
	s.release(last)
	s.gone(s.line)
}

func manyTogether(s *scene) {
	cs := s.clients(3)
	var inside atomic.Int64
	var highest atomic.Uint64
	var all sync.WaitGroup
	for i := range 24 {
		m := mutex.New(cs[i%3], s.line, mutex.Together(10*time.Millisecond))
		all.Go(func() {
			for range 6 {
				err := m.Do(s.ctx, func(_ context.Context, h *coord.Hold) error {
					if n := inside.Add(1); n != 1 {
						s.Errorf("%d are inside", n)
					}
					if t := uint64(h.Token()); highest.Swap(t) >= t {
						s.Errorf("token %d is no greater than the one before", t)
					}
					time.Sleep(rand.N(time.Millisecond))
					inside.Add(-1)
					return nil
				})
				if err != nil {
					s.Errorf("Do: %v", err)
				}
			}
		})
	}
	all.Wait()
	s.gone(s.line)
}

func readersTogether(s *scene) {
	cs := s.clients(2)
	l := rwlock.New(cs[0], s.line, rwlock.Together(aWhile))
	first := s.must(l.RLock(s.ctx))
	var readers []*coord.Hold
	for range 50 {
		h := s.must(l.RLock(s.ctx))
		if !sameNode(first, h) {
			s.Errorf("token %d after %d: want a turn of the same node", h.Token(), first.Token())
		}
		readers = append(readers, h)
	}
	writer := taking(func() (*coord.Hold, error) { return rwlock.New(cs[1], s.line).Lock(s.ctx) })
	s.queued(2)
	for _, h := range readers {
		s.release(h)
	}
	s.waits(writer, "a writer behind a reader")
	first.Pin()
	s.release(first)
	s.release(s.granted(soon, writer, "the readers have gone"))
	s.gone(s.line)
}
