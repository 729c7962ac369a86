package memory

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/turnwise/turnwise/coord/register"
)

// Link is a store as one client sees it, over a link that can be cut. While it is cut, requests wait, and nothing is
// heard.
type Link struct {
	*Store

	mu        sync.Mutex
	cut       *cut
	pauses    int
	turned    chan struct{} // closed when it is cut, healed, or paused
	listeners map[*listener]struct{}
	begun     map[string]struct{} // sessions' registers that were made through it
}

var _ register.Store = (*Link)(nil)

// Link returns a link to the store.
func (s *Store) Link() *Link {
	return &Link{Store: s, turned: make(chan struct{}), listeners: make(map[*listener]struct{}), begun: make(map[string]struct{})}
}

// cut is one time that a link is cut.
type cut struct{ _ byte }

// Cut cuts the link once everything that was told before has been heard. The function that it returns heals this cut,
// and no later one.
func (l *Link) Cut() (heal func()) {
	l.allHeard()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut == nil {
		l.cut = new(cut)
		l.turn()
	}
	this := l.cut
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.cut == this {
			l.cut = nil
			l.turn()
		}
	}
}

// During has something done of which the client sees only the result: nothing passes the link meanwhile.
func (l *Link) During(do func()) {
	l.allHeard()
	l.pause(1)
	do()
	l.pause(-1)
	l.allHeard()
}

func (l *Link) pause(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pauses += n
	l.turn()
}

// turn needs mu.
func (l *Link) turn() {
	close(l.turned)
	l.turned = make(chan struct{})
}

func (l *Link) state() (passes bool, turned <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut == nil && l.pauses == 0, l.turned
}

// pass waits while the link is cut. It returns false if done ends the wait; then the store's answer says so as well.
func (l *Link) pass(done <-chan struct{}) bool {
	for {
		passes, turned := l.state()
		if passes {
			return true
		}
		select {
		case <-turned:
		case <-done:
			return false
		}
	}
}

// allHeard waits until all listeners have heard what they were told before, unless nothing passes.
func (l *Link) allHeard() {
	l.mu.Lock()
	all := slices.Collect(maps.Keys(l.listeners))
	l.mu.Unlock()
	for _, one := range all {
		heard := make(chan struct{})
		one.tell(func() { close(heard) })
		for waiting := true; waiting; {
			passes, turned := l.state()
			if !passes {
				return
			}
			select {
			case <-heard:
				waiting = false
			case <-one.stop:
				waiting = false
			case <-turned:
			}
		}
	}
}

// Sessions returns the sessions that were begun through the link, and have not ended.
func (l *Link) Sessions() (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.begun {
		if l.Store.stands(key) {
			all = append(all, strings.TrimPrefix(key, session))
		} else {
			delete(l.begun, key)
		}
	}
	return all
}

func (l *Link) Read(ctx context.Context, key string) (register.Item, error) {
	l.pass(ctx.Done())
	return l.Store.Read(ctx, key)
}

func (l *Link) Swap(ctx context.Context, sw register.Swap) (register.Item, error) {
	l.pass(ctx.Done())
	it, err := l.Store.Swap(ctx, sw)
	if err == nil && sw.Old.IsZero() && strings.HasPrefix(sw.Key, session) {
		l.mu.Lock()
		l.begun[sw.Key] = struct{}{}
		l.mu.Unlock()
	}
	return it, err
}

func (l *Link) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	l.pass(ctx.Done())
	return l.Store.List(ctx, prefix, yield)
}

func (l *Link) Listen(ctx context.Context, topic string, hear func([]byte)) (stop func(), err error) {
	l.pass(ctx.Done())
	one := newListener(hear, l)
	end, err := l.Store.listen(ctx, topic, one)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.listeners[one] = struct{}{}
	l.mu.Unlock()
	return func() {
		l.mu.Lock()
		delete(l.listeners, one)
		l.mu.Unlock()
		end()
	}, nil
}

func (l *Link) Memory(ctx context.Context) (register.Memory, error) {
	l.pass(ctx.Done())
	return l.Store.Memory(ctx)
}
