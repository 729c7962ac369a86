package storetest

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
)

// Link is a store at the end of a link that makes faults when it is told to. With it a driver meets faults on any store,
// without a proxy that knows the system's protocol. Its methods are those of a [drivertest.FaultLink]. The swaps that have a
// Fate are those of lines.
//
// A swap is decided and seen at once. So there is no commit that is slow to be seen, only a swap that is slow to arrive, or
// whose answer is; see Linger.
type Link struct {
	*drivertest.FaultLink

	// Store is the store as the driver sees it. It is a register.Presence if the store at the end is one. Faults of the link do
	// not affect what it keeps, since that is between the process and the kernel.
	Store register.Store

	store register.Store // at the end
	life  context.Context
	over  context.CancelFunc

	mu   sync.Mutex
	ears map[*linkedEar]bool
	kept map[int]func() // how each is released
	keys int
}

// NewLink puts a store at the end of a link. Closing Link.Store closes the store.
func NewLink(store register.Store) *Link {
	l := &Link{store: store, ears: make(map[*linkedEar]bool), kept: make(map[int]func())}
	l.life, l.over = context.WithCancel(context.Background())
	l.FaultLink = drivertest.NewFaultLink(drivertest.FaultLinkConfig{Beside: true, Connected: l.reconnected})
	far := &linked{l: l, store: store}
	l.Store = far
	if presence, ok := store.(register.Presence); ok {
		l.Store = &linkedPresence{far, presence}
	}
	return l
}

// Kill does to the system what kill -9 of the near end's process does: the connection is gone, and what the process kept is
// no longer kept.
func (l *Link) Kill() {
	l.Cut()
	l.letGo()
}

// letGo releases what is kept, as the kernel does when a process has ended.
func (l *Link) letGo() {
	l.mu.Lock()
	all := l.kept
	l.kept = make(map[int]func())
	l.mu.Unlock()
	for _, release := range all {
		release()
	}
}

// reconnected tells all who listen that they may have missed something.
func (l *Link) reconnected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := range l.ears {
		l.Tell(0, func() { e.hear(nil) })
	}
}

// linked is a store as seen through a link.
type linked struct {
	l     *Link
	store register.Store
}

// answered is what a store has answered, with all that it says.
type answered[T any] struct {
	value T
	err   error
}

// ask has a store asked at the other end of the link. The caller may have gone when the answer comes; then undo is called,
// if there is something to take back.
func ask[T any](ctx context.Context, l *Link, sort drivertest.Sort, size int, call func() (T, error), sizeOf func(T) int, undo func(T)) (T, error) {
	var none T
	var gone atomic.Bool
	answer := make(chan answered[T], 1)
	takeBack := func() {
		select {
		case a := <-answer:
			if a.err == nil {
				undo(a.value)
			}
		default: // it is still to come, or never does
		}
	}
	err := l.Do(ctx, sort, size, func() int {
		v, err := call()
		answer <- answered[T]{v, err}
		if undo != nil && gone.Load() {
			takeBack()
		}
		return sizeOf(v)
	})
	if err == nil {
		a := <-answer
		return a.value, a.err
	}
	if gone.Store(true); undo != nil {
		go takeBack()
	}
	return none, err
}

// request returns a context for what the far end of the link does: it does not end with the caller's.
func (l *Link) request() (context.Context, context.CancelFunc) {
	return context.WithTimeout(l.life, 10*time.Second)
}

// look returns a context for what nobody needs once the caller has gone.
func (l *Link) look(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.life, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

const (
	linePrefix    = "line/"
	dataPrefix    = "data/"
	sessionPrefix = "session/"
)

// swapping says what a swap counts as. What keeps sessions alive and the store tidy is upkeep.
func swapping(key string) drivertest.Sort {
	switch {
	case strings.HasPrefix(key, linePrefix):
		return drivertest.Placing
	case strings.HasPrefix(key, dataPrefix):
		return drivertest.Writing
	}
	return drivertest.Upkeep
}

// looking says what a read or a list counts as. To look whether a session stands is upkeep as well.
func looking(key string) drivertest.Sort {
	if strings.HasPrefix(key, linePrefix) || strings.HasPrefix(key, dataPrefix) || key == "epoch" {
		return drivertest.Reading
	}
	return drivertest.Upkeep
}

func sizeOfItem(it register.Item) int { return len(it.Key) + len(it.Value) }

func (s *linked) Read(ctx context.Context, key string) (register.Item, error) {
	return ask(ctx, s.l, looking(key), len(key), func() (register.Item, error) {
		ctx, cancel := s.l.look(ctx)
		defer cancel()
		return s.store.Read(ctx, key)
	}, sizeOfItem, nil)
}

func (s *linked) Swap(ctx context.Context, sw register.Swap) (register.Item, error) {
	size := len(sw.Key) + len(sw.Value)
	for _, n := range sw.Notes {
		size += len(n.Topic) + len(n.Text)
	}
	opened(ctx, sw)
	return ask(ctx, s.l, swapping(sw.Key), size, func() (register.Item, error) {
		ctx, cancel := s.l.request()
		defer cancel()
		return s.store.Swap(ctx, sw)
	}, func(it register.Item) int {
		if it.Version == sw.Next {
			return 0 // the caller knows it
		}
		return sizeOfItem(it)
	}, nil)
}

func (s *linked) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	all, err := ask(ctx, s.l, looking(prefix), len(prefix), func() (all []register.Item, err error) {
		ctx, cancel := s.l.look(ctx)
		defer cancel()
		err = s.store.List(ctx, prefix, func(it register.Item) bool {
			all = append(all, it)
			return true
		})
		return all, err
	}, func(all []register.Item) (size int) {
		for _, it := range all {
			size += sizeOfItem(it)
		}
		return size
	}, nil)
	if err != nil {
		return err
	}
	for _, it := range all {
		if !yield(it) {
			break
		}
	}
	return nil
}

func (s *linked) Listen(ctx context.Context, topic string, hear func(note []byte)) (stop func(), err error) {
	sort := drivertest.Upkeep // a session's, which is part of its opening
	if strings.HasPrefix(topic, "first/") || strings.HasPrefix(topic, "all/") {
		sort = drivertest.Reading
	}
	e := &linkedEar{heard: hear}
	s.l.mu.Lock()
	s.l.ears[e] = true // a cut from now on tells it
	s.l.mu.Unlock()
	gone := func() {
		e.end()
		s.l.mu.Lock()
		delete(s.l.ears, e)
		s.l.mu.Unlock()
	}
	stopThere, err := ask(ctx, s.l, sort, len(topic), func() (func(), error) {
		ctx, cancel := s.l.request()
		defer cancel()
		return s.store.Listen(ctx, topic, func(note []byte) {
			note = bytes.Clone(note)
			s.l.Tell(len(note), func() { e.hear(note) })
		})
	}, func(func()) int { return 0 }, func(stop func()) { stop() })
	if err != nil {
		gone()
		return nil, err
	}
	return func() {
		gone()
		stopThere()
	}, nil
}

// linkedEar is a listener at the near end of a link.
type linkedEar struct {
	mu    sync.Mutex
	heard func(note []byte)
	ended bool
}

func (e *linkedEar) hear(note []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.ended {
		e.heard(note)
	}
}

func (e *linkedEar) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
}

func (s *linked) Memory(ctx context.Context) (register.Memory, error) {
	return ask(ctx, s.l, drivertest.Upkeep, 0, func() (register.Memory, error) {
		ctx, cancel := s.l.look(ctx)
		defer cancel()
		return s.store.Memory(ctx)
	}, func(m register.Memory) int { return len(m.ID) }, nil)
}

func (s *linked) Strength() driver.Strength { return s.store.Strength() }

// Close takes the link down, and closes the store.
func (s *linked) Close() error {
	s.l.over()
	s.l.FaultLink.Close()
	return s.store.Close()
}

type linkedPresence struct {
	*linked
	presence register.Presence
}

func (k *linkedPresence) Keep(ctx context.Context, key string) (release func(), err error) {
	there, err := ask(ctx, k.l, drivertest.Upkeep, len(key), func() (func(), error) {
		ctx, cancel := k.l.request()
		defer cancel()
		return k.presence.Keep(ctx, key)
	}, func(func()) int { return 0 }, func(release func()) { release() })
	if err != nil {
		return nil, err
	}
	k.l.mu.Lock()
	defer k.l.mu.Unlock()
	k.l.keys++
	n, once := k.l.keys, sync.OnceFunc(there)
	k.l.kept[n] = once
	return func() {
		once()
		k.l.mu.Lock()
		delete(k.l.kept, n)
		k.l.mu.Unlock()
	}, nil
}

func (k *linkedPresence) Unkept(ctx context.Context, key string) error {
	_, err := ask(ctx, k.l, drivertest.Upkeep, len(key), func() (struct{}, error) {
		ctx, cancel := k.l.look(ctx)
		defer cancel()
		return struct{}{}, k.presence.Unkept(ctx, key)
	}, func(struct{}) int { return 0 }, nil)
	return err
}
