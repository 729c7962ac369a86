package storetest

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
)

// Memory is a store in this process: the simplest that does all that a Store owes. It runs under testing/synctest.
type Memory struct {
	mu        sync.Mutex
	registers map[string]kept
	listeners map[string]map[*listener]struct{}
	mute      bool
}

type kept struct {
	value   []byte
	version register.Version
	since   time.Time
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{registers: make(map[string]kept), listeners: make(map[string]map[*listener]struct{})}
}

// NewMuteMemory returns an empty store that does not tell of swaps.
func NewMuteMemory() *Memory {
	m := NewMemory()
	m.mute = true
	return m
}

func (m *Memory) Read(ctx context.Context, key string) (register.Item, error) {
	if err := ctx.Err(); err != nil {
		return register.Item{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.item(key), nil
}

// item needs mu.
func (m *Memory) item(key string) register.Item {
	k, ok := m.registers[key]
	if !ok {
		return register.Item{Key: key}
	}
	return register.Item{Key: key, Value: k.value, Version: k.version, Age: time.Since(k.since)}
}

func (m *Memory) Swap(ctx context.Context, s register.Swap) (register.Item, error) {
	if err := ctx.Err(); err != nil {
		return register.Item{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.registers[s.Key].version
	switch {
	case now == s.Old:
	case now == s.Next:
		return m.item(s.Key), nil
	default:
		return m.item(s.Key), register.ErrConflict
	}
	if s.Next.IsZero() {
		delete(m.registers, s.Key)
	} else {
		m.registers[s.Key] = kept{s.Value, s.Next, time.Now()}
	}
	for _, n := range s.Notes {
		for l := range m.listeners[n.Topic] {
			l.tell(n.Text)
		}
	}
	return m.item(s.Key), nil
}

func (m *Memory) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	m.mu.Lock()
	var all []register.Item
	for key := range m.registers {
		if strings.HasPrefix(key, prefix) {
			all = append(all, m.item(key))
		}
	}
	m.mu.Unlock()
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

func (m *Memory) Listen(ctx context.Context, topic string, hear func([]byte)) (stop func(), err error) {
	if m.mute {
		return nil, register.ErrMute
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := &listener{more: make(chan struct{}, 1), stop: make(chan struct{})}
	m.mu.Lock()
	if m.listeners[topic] == nil {
		m.listeners[topic] = make(map[*listener]struct{})
	}
	m.listeners[topic][l] = struct{}{}
	m.mu.Unlock()
	var running sync.WaitGroup
	running.Go(func() { l.run(hear) })
	return sync.OnceFunc(func() {
		m.mu.Lock()
		delete(m.listeners[topic], l)
		if len(m.listeners[topic]) == 0 {
			delete(m.listeners, topic)
		}
		m.mu.Unlock()
		close(l.stop)
		running.Wait()
	}), nil
}

// Memory of the Memory: it forgets nothing as long as it lasts.
func (m *Memory) Memory(ctx context.Context) (register.Memory, error) {
	return register.Memory{For: register.Forever}, ctx.Err()
}

// Strength of a store that ends with its process.
func (m *Memory) Strength() driver.Strength {
	s := driver.Strength{Failover: driver.NoFailover, WakeUp: driver.Told}
	if m.mute {
		s.WakeUp = driver.Polled
	}
	return s
}

func (m *Memory) Close() error { return nil }

// listener hears notes in order.
type listener struct {
	mu    sync.Mutex
	notes [][]byte
	more  chan struct{}
	stop  chan struct{}
}

func (l *listener) tell(note []byte) {
	l.mu.Lock()
	l.notes = append(l.notes, note)
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *listener) run(hear func([]byte)) {
	for {
		select {
		case <-l.more:
		case <-l.stop:
			return
		}
		l.mu.Lock()
		notes := l.notes
		l.notes = nil
		l.mu.Unlock()
		for _, n := range notes {
			select {
			case <-l.stop:
				return
			default:
				hear(n)
			}
		}
	}
}
