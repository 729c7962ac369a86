package memcached

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
)

// Store keeps registers as items of one memcached. It is a [register.Store].
type Store struct {
	config
	pool    *pool
	largest atomic.Int64 // value, in bytes: what an item may have less what goes with it
	seen    sights
	pruner  pruner

	pruneAfter time.Duration

	known atomic.Pointer[memory] // nil once the server has forgotten, until Memory is called
	turn  chan struct{}          // held by whoever asks for the memory
}

var _ register.Store = (*Store)(nil)

// strength is that of a server that was started as the documentation asks for.
var strength = driver.Strength{
	Restart:  driver.ForgetsOpenly,
	Failover: driver.NoFailover,
	Tokens:   driver.RiseWhileRemembered,
	WakeUp:   driver.Polled,
}

// Strength returns what a memcached promises.
func (s *Store) Strength() driver.Strength {
	label := strength
	if s.evictions {
		label.Restart = driver.Forgets
	}
	return label
}

// Listen returns ErrMute: the server has nothing to tell with.
func (s *Store) Listen(context.Context, string, func([]byte)) (stop func(), err error) {
	return nil, register.ErrMute
}

// Close closes the connections.
func (s *Store) Close() error {
	s.pool.close()
	return nil
}

// with runs do on a connection.
func (s *Store) with(ctx context.Context, do func(c *conn, known *memory) error) (cut bool, err error) {
	known := s.known.Load()
	if known == nil {
		return false, register.ErrForgot
	}
	c, err := s.pool.get(ctx)
	if err != nil {
		return false, err
	}
	defer s.pool.put(c)
	if err = do(c, known); err != nil && c.broken && !errors.Is(ctx.Err(), context.Canceled) {
		s.pool.drop() // a server that has gone, or does not answer, takes all of them along
	}
	return c.broken, err
}

// query repeats what changes nothing, if it was sent on a connection that had been cut.
func (s *Store) query(ctx context.Context, do func(c *conn, known *memory) error) error {
	for cuts := 0; ; cuts++ {
		if cut, err := s.with(ctx, do); err == nil || !cut || cuts >= maxCuts || ctx.Err() != nil || errors.Is(err, register.ErrForgot) {
			return err
		}
	}
}

// maxCuts is how often a connection may be found to be cut before it is the server's fault.
const maxCuts = 2

func (s *Store) Read(ctx context.Context, key string) (it register.Item, err error) {
	err = s.query(ctx, func(c *conn, known *memory) (err error) {
		it, _, err = s.read(ctx, c, known, key)
		return err
	})
	if err != nil {
		return register.Item{}, s.failed(ctx, "read", err)
	}
	return it, nil
}

// read returns what stands in a register, and the number that the server has given the item. There is a number without a
// register if the item is of another memory.
func (s *Store) read(ctx context.Context, c *conn, known *memory, key string) (it register.Item, cas uint64, err error) {
	a, err := c.ask(ctx, get(s.keyOf(key)), get(s.markKey()))
	if err == nil {
		err = s.check(known, a[1])
	}
	if err != nil {
		return it, 0, err
	}
	return s.standing(known, key, a[0])
}

func (s *Store) standing(known *memory, key string, a reply) (it register.Item, cas uint64, err error) {
	absent := register.Item{Key: key}
	if !a.found() {
		return absent, 0, nil
	}
	it, standing, err := decode(known, a.value)
	switch {
	case err != nil || !standing:
		return absent, a.cas, err
	case it.Key != key:
		return absent, 0, denied("the keys %.100q and %.100q have the same place", key, it.Key)
	}
	s.seen.note(known, key, it.Version, a.cas)
	return it, a.cas, nil
}

func (s *Store) Swap(ctx context.Context, w register.Swap) (cur register.Item, err error) {
	// The server must not even be asked: it would throw away what stands there.
	if most := s.largest.Load(); int64(len(w.Value)) > most {
		return register.Item{}, fmt.Errorf("memcached: swap %q: %w: %d bytes; the server keeps at most %d, see its -I", w.Key, register.ErrTooLarge, len(w.Value), most)
	}
	_, err = s.with(ctx, func(c *conn, known *memory) (err error) {
		if w.Old.IsZero() {
			cur, err = s.create(ctx, c, known, &w)
		} else {
			cur, err = s.change(ctx, c, known, &w)
		}
		return err
	})
	switch {
	case err == nil:
		return cur, nil
	case err == register.ErrConflict:
		return cur, err
	}
	return register.Item{}, s.failed(ctx, "swap", err)
}

// change swaps a register that is not empty. If we have seen what is to be replaced, it takes one trip.
func (s *Store) change(ctx context.Context, c *conn, known *memory, w *register.Swap) (cur register.Item, err error) {
	cas := s.seen.number(known, w.Key, w.Old)
	for {
		if cas == 0 {
			cur, cas, err = s.read(ctx, c, known, w.Key)
			switch {
			case err != nil:
				return cur, err
			case cur.Version == w.Next:
				return cur, nil
			case cur.Version != w.Old:
				return cur, register.ErrConflict
			}
		}
		q := remove(s.keyOf(w.Key), cas)
		if !w.Next.IsZero() {
			q = replace(s.keyOf(w.Key), cas, encode(known, w.Key, w.Next, w.Value))
		}
		done, at, err := s.apply(ctx, c, known, q)
		if err != nil {
			return cur, err
		}
		if done {
			s.seen.note(known, w.Key, w.Next, at)
			if w.Next.IsZero() {
				return register.Item{Key: w.Key}, nil
			}
			return register.Item{Key: w.Key, Value: w.Value, Version: w.Next, Age: -1}, nil
		}
		cas = 0
	}
}

// apply sends one change. After an error it is open whether it was done.
func (s *Store) apply(ctx context.Context, c *conn, known *memory, q request) (done bool, cas uint64, err error) {
	a, err := c.ask(ctx, q, get(s.markKey()))
	if err == nil {
		err = s.check(known, a[1])
	}
	if err == nil {
		err = s.kept(ctx, c, known, a[0])
	}
	return err == nil && a[0].code == "HD", a[0].cas, err
}

// create swaps a register that is empty. It puts the key into the directory first.
func (s *Store) create(ctx context.Context, c *conn, known *memory, w *register.Swap) (cur register.Item, err error) {
	for {
		cur, cas, err := s.read(ctx, c, known, w.Key)
		switch {
		case err != nil:
			return cur, err
		case cur.Version == w.Next:
			return cur, nil
		case !cur.Version.IsZero():
			return cur, register.ErrConflict
		}
		if err := s.announce(ctx, c, known, w.Key); err != nil {
			return cur, err
		}
		announced := time.Now()
		value := encode(known, w.Key, w.Next, w.Value)
		q := add(s.keyOf(w.Key), value)
		if cas != 0 { // of another memory
			q = replace(s.keyOf(w.Key), cas, value)
		}
		if time.Since(announced) > s.pruneAfter/4 {
			continue // this machine has slept: the key may have been taken away again
		}
		done, at, err := s.apply(ctx, c, known, q)
		if err != nil {
			return cur, err
		}
		if done {
			s.seen.note(known, w.Key, w.Next, at)
			return register.Item{Key: w.Key, Value: w.Value, Version: w.Next, Age: -1}, nil
		}
	}
}

// failed says what was tried. It keeps the error of a ctx that has ended in the chain.
func (s *Store) failed(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return fmt.Errorf("memcached: %s: %w", what, err)
}

// sights are the numbers that the server has given to what we saw last, so that the next swap need not read first. A number
// never comes again as long as the server runs.
type sights struct {
	mu  sync.Mutex
	all map[string]sight
}

type sight struct {
	memory  *memory
	version register.Version
	cas     uint64
}

// enough is how many sights are kept.
const enough = 4096

func (s *sights) note(m *memory, key string, v register.Version, cas uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.IsZero() || cas == 0 {
		delete(s.all, key)
		return
	}
	if s.all == nil || len(s.all) >= enough {
		s.all = make(map[string]sight)
	}
	s.all[key] = sight{m, v, cas}
}

func (s *sights) number(m *memory, key string, v register.Version) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.all[key]; at.memory == m && at.version == v {
		return at.cas
	}
	return 0
}

func (s *sights) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = nil
}
