package quorum

import (
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

// A ledger is what this process remembers of its own proposals, so that the next one takes a trip less or disturbs fewer
// others. Nothing is wrong when it has lost something, so each of its lists is bounded.
type ledger struct {
	mu       sync.Mutex
	promises map[string]promised           // by key
	open     map[register.Version]struct{} // swaps of which it is open whether they were applied
	turns    map[string]*acceptor          // by key: the referee has reserved the next swap for us
}

// promised is what a majority has accepted from us, together with the promise of our next ballot. As long as the promise
// holds, nobody else has changed the register.
type promised struct {
	ballot ballot // the next one
	last   accepted
	at     time.Time
	group  string // that has promised it
}

const (
	keepPromised = time.Minute // a promise is not used for longer: its register is likely to have been changed by others
	maxKept      = 10_000      // in each list
)

func newLedger() *ledger {
	return &ledger{
		promises: make(map[string]promised),
		open:     make(map[register.Version]struct{}),
		turns:    make(map[string]*acceptor),
	}
}

// take returns the ballot that is promised to us and what was accepted last, or false and the highest known ballot. There is
// one proposal for each ballot, so the promise is used up.
func (l *ledger) take(key, group string) (at ballot, now accepted, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.promises[key]
	delete(l.promises, key)
	if !ok || p.group != group || time.Since(p.at) > keepPromised {
		return p.ballot, accepted{}, false
	}
	p.last.age += time.Since(p.at)
	return p.ballot, p.last, true
}

// put keeps a promise, or without a time only the ballot to go beyond.
func (l *ledger) put(key string, p promised) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, there := l.promises[key]; !there && len(l.promises) >= maxKept {
		for other := range l.promises { // any will do
			delete(l.promises, other)
			break
		}
	}
	l.promises[key] = p
}

// wasOpen reports whether it is open if an earlier try of a swap was applied. Then the past of the register may tell.
func (l *ledger) wasOpen(next register.Version) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, open := l.open[next]
	delete(l.open, next)
	return open
}

func (l *ledger) leaveOpen(next register.Version) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !next.IsZero() && len(l.open) < maxKept {
		l.open[next] = struct{}{}
	}
}

// takeTurn returns the referee that has reserved the next turn at a key for us, if any.
func (l *ledger) takeTurn(key string) *acceptor {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.turns[key]
	delete(l.turns, key)
	return a
}

func (l *ledger) keepTurn(key string, a *acceptor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.turns) < maxKept {
		l.turns[key] = a
	}
}
