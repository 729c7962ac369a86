// Package memory is a store of registers within the process, the simplest that does everything a [register.Store] must
// do. coord/mem is coord/register on top of it, and the tests of coord/register use it as well. It runs under
// testing/synctest.
package memory

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
)

// Store is a store in this process.
type Store struct {
	id        string // of its memory
	began     time.Time
	mu        sync.Mutex
	registers map[string]kept
	listeners map[string]map[*listener]struct{} // by topic
	mute      bool
	ttl       time.Duration
	expired   func(session string) // nil: nobody asks
}

// session is the prefix of the registers that sessions renew, as in coord/register.
const session = "session/"

var _ register.Store = (*Store)(nil)

// kept is what stands in a register.
type kept struct {
	value   []byte
	version register.Version
	since   time.Time
	silent  *time.Timer // of a session: fires when nobody has renewed it for too long
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{id: rand.Text(), began: time.Now(), registers: make(map[string]kept), listeners: make(map[string]map[*listener]struct{})}
}

// NewMuteStore returns an empty store that does not tell of swaps.
func NewMuteStore() *Store {
	s := NewStore()
	s.mute = true
	return s
}

// WhenExpired has end called with each session that has not been renewed for that long.
func (s *Store) WhenExpired(ttl time.Duration, end func(session string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ttl, s.expired = ttl, end
}

func (s *Store) Read(ctx context.Context, key string) (register.Item, error) {
	if err := ctx.Err(); err != nil {
		return register.Item{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.item(key), nil
}

func (s *Store) stands(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.registers[key]
	return ok
}

// item needs mu.
func (s *Store) item(key string) register.Item {
	now := time.Now()
	it := register.Item{Key: key, Clock: now.Sub(s.began) + 1} // zero would mean that there is no clock
	if k, ok := s.registers[key]; ok {
		it.Value, it.Version, it.Age = k.value, k.version, now.Sub(k.since)
	}
	return it
}

func (s *Store) Swap(ctx context.Context, sw register.Swap) (register.Item, error) {
	if err := ctx.Err(); err != nil {
		return register.Item{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.registers[sw.Key]
	switch was.version {
	case sw.Old:
	case sw.Next:
		return s.item(sw.Key), nil
	default:
		return s.item(sw.Key), register.ErrConflict
	}
	if was.silent != nil {
		was.silent.Stop()
	}
	if sw.Next.IsZero() {
		delete(s.registers, sw.Key)
	} else {
		now := kept{value: sw.Value, version: sw.Next, since: time.Now()}
		if id, ok := strings.CutPrefix(sw.Key, session); ok && s.expired != nil {
			now.silent = time.AfterFunc(s.ttl, func() { s.expired(id) })
		}
		s.registers[sw.Key] = now
	}
	for _, n := range sw.Notes {
		for l := range s.listeners[n.Topic] {
			l.tell(func() { l.hear(n.Text) })
		}
	}
	it := s.item(sw.Key)
	if !sw.Clock {
		it.Clock = 0
	}
	return it, nil
}

func (s *Store) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	var all []register.Item
	for key := range s.registers {
		if strings.HasPrefix(key, prefix) {
			all = append(all, s.item(key))
		}
	}
	s.mu.Unlock()
	for _, it := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !yield(it) {
			break
		}
	}
	return nil
}

func (s *Store) Listen(ctx context.Context, topic string, hear func([]byte)) (stop func(), err error) {
	return s.listen(ctx, topic, newListener(hear, nil))
}

func (s *Store) listen(ctx context.Context, topic string, l *listener) (stop func(), err error) {
	if s.mute {
		return nil, register.ErrMute
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.listeners[topic] == nil {
		s.listeners[topic] = make(map[*listener]struct{})
	}
	s.listeners[topic][l] = struct{}{}
	s.mu.Unlock()
	var running sync.WaitGroup
	running.Go(l.run)
	return sync.OnceFunc(func() {
		s.mu.Lock()
		delete(s.listeners[topic], l)
		if len(s.listeners[topic]) == 0 {
			delete(s.listeners, topic)
		}
		s.mu.Unlock()
		close(l.stop)
		running.Wait()
	}), nil
}

// OnlySwapsTell says that nobody can tell anything but by a swap.
func (s *Store) OnlySwapsTell() {}

// Memory says that nothing is forgotten for as long as the store lasts.
func (s *Store) Memory(ctx context.Context) (register.Memory, error) {
	return register.Memory{ID: s.id, For: register.Forever}, ctx.Err()
}

// Strength returns the strength of a store that ends with its process.
func (s *Store) Strength() driver.Strength {
	promised := driver.Strength{Failover: driver.NoFailover, WakeUp: driver.Told}
	if s.mute {
		promised.WakeUp = driver.Polled
	}
	return promised
}

func (s *Store) Close() error { return nil }
