package register

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// place is one of a session's nodes.
type place struct {
	s          *session
	n          uint64 // which one
	clerk      *clerk
	leaveClerk func()
	sight      driver.Sight
	bell       driverkit.Bell // rung when something was told for certain, or is urgent
	hints      driverkit.Bell // rung when something was told by whoever may tell
	calm       time.Time      // until when hints are left alone; for Await and Watch
	puts       atomic.Uint64  // the number of its last data register; they begin behind a secret
	forgotten  atomic.Uint64  // the last that is deleted

	aside uint64 // which of those the node has now; for Amend

	mu       sync.Mutex
	shown    driver.Node
	last     bool
	seen     uint64    // the seq of the line that was shown last
	turn     uint64    // not zero: told, with this seq, that nobody stands in its way
	removed  uint64    // not zero: told, with this seq, that it was removed
	stale    bool      // told to look again
	alarms   uint64    // how many hints have said that it was removed
	doubted  time.Time // since when it looks because of one, and has not found it
	answered uint64    // how many of those had come before a look that found it
	patient  bool      // Watch looks, and not because of an alarm
}

func (p *place) Node() driver.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown
}

func (p *place) Last() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// heed takes in a notice that is certain.
func (p *place) heed(seq uint64, what byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if seq <= p.seen { // what was shown is newer
		return
	}
	switch what {
	case yourTurn:
		p.turn = seq
	case youAreGone:
		p.removed = seq
	case lookAgain:
		p.stale = true
	}
	p.bell.Ring()
}

// hint takes in a notice that anybody may have sent.
func (p *place) hint(seq uint64, what byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if seq <= p.seen {
		return
	}
	if what == youAreGone {
		p.alarms++
		if p.patient {
			p.patient = false
			p.bell.Ring()
		}
	}
	p.hints.Ring()
}

// hintEvery is how often a place follows hints at most; see session.calm.
const hintEvery = 50 * time.Millisecond

// doubt has the place look, since something may have been told and lost.
func (p *place) doubt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stale = true
	p.bell.Ring()
}

// told returns what was told, and resets stale.
func (p *place) told() (turn, stale, removed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	turn, stale, removed = p.turn > 0, p.stale, p.removed > 0
	p.stale = false
	if turn && p.alarms > p.answered { // perhaps it was removed before its turn came: that hint leads to a look
		turn = false
	}
	if turn && p.shown.Kind == rules.Reader && p.sight.Sees(rules.Reader) { // it wants to see more than a reader does
		turn, stale = false, true
		p.turn = 0
	}
	return turn, stale, removed
}

// enter makes a place known to the session before it is in the line: news of it may come before the answer to the join.
func (s *session) enter(e driver.Entry) *place {
	p := &place{s: s, n: s.joined.Add(1), sight: e.Sight, bell: driverkit.NewBell(), hints: driverkit.NewBell()}
	secret := newSecret()
	p.puts.Store(secret)
	p.forgotten.Store(secret)
	p.clerk, p.leaveClerk = s.d.clerk(e.Line)
	s.mu.Lock()
	s.places[p.n] = p
	s.mu.Unlock()
	return p
}

func (p *place) exit() {
	p.s.mu.Lock()
	delete(p.s.places, p.n)
	p.s.mu.Unlock()
	p.leaveClerk()
}

// goAway takes the node away, however long it takes.
func (p *place) goAway() *wish {
	w := p.clerk.want(newWish(p.s, func(d *draft, _ try) error {
		d.remove(1, left, func(n node) bool { return n.n == p.n && d.members[n.member].id == p.s.id })
		return nil
	}))
	if !p.s.life.Errand(func() {
		defer p.exit()
		select {
		case <-w.done:
			p.forgetAside(p.puts.Load() + 1)
		case <-p.s.life.Done():
		}
	}) {
		p.exit()
	}
	return w
}

// inLine is the longest data of a node that is kept in the line. Longer data gets a register of its own, so that not every
// swap of the line carries it.
const inLine = 256

// newSecret returns a number that nobody guesses who sees our other nodes. Whoever can write one line can let it say that data of another one
// belongs to it, and that is then shown to all who look at his: so he must not know how the register is called, if he may not read the line
// in which it stands.
func newSecret() uint64 {
	v := NewVersion()
	return binary.BigEndian.Uint64(v[:]) >> 24 // so that it takes six bytes of the line
}

// putAside writes data that is too long for the line into a register of its own, and returns the number of that register
// among the node's. For short data it returns zero.
func (p *place) putAside(ctx context.Context, data []byte) (uint64, error) {
	if len(data) <= inLine {
		return 0, nil
	}
	put := p.puts.Add(1)
	swap := Swap{Key: nodeID{session: p.s.id, n: p.n}.dataKey(put), Next: NewVersion(), Value: bytes.Clone(data), By: p.s.d.self}
	for tries := 0; ; tries++ {
		rctx, cancel := p.s.d.requestFor(ctx)
		_, err := p.s.d.store.Swap(rctx, swap)
		cancel()
		if err == nil || driver.IsLasting(err) || errors.Is(err, ErrTooLarge) {
			return put, err
		}
		if err := p.s.life.Stopped(ctx); err != nil {
			return 0, err
		}
		p.s.d.failed(ctx, err)
		if err := driverkit.Sleep(ctx, driverkit.Jitter(driverkit.Pause(tries))); err != nil {
			return 0, err
		}
	}
}

// forgetAside deletes the node's data registers with numbers below before. What is left over goes with the session; see
// remains.go.
func (p *place) forgetAside(before uint64) {
	for put := p.forgotten.Load() + 1; put < before; put++ {
		key := nodeID{session: p.s.id, n: p.n}.dataKey(put)
		ctx, cancel := p.s.d.request()
		it, err := p.s.d.store.Read(ctx, key)
		if err == nil && !it.Version.IsZero() {
			_, err = p.s.d.store.Swap(ctx, Swap{Key: key, Old: it.Version, By: p.s.d.self})
		}
		cancel()
		if err != nil {
			return
		}
		p.forgotten.Store(put)
	}
}
