package register

import (
	"sync"
	"sync/atomic"

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
	bell       driverkit.Bell // rung when something was told
	puts       atomic.Uint64  // how often data was put aside
	forgotten  atomic.Uint64  // how much of that is deleted

	aside uint64 // which of those the node has now; for Amend

	mu      sync.Mutex
	shown   driver.Node
	last    bool
	seen    uint64 // the seq of the line that was shown last
	turn    uint64 // not zero: told, with this seq, that nobody stands in its way
	removed uint64 // not zero: told, with this seq, that it was removed
	stale   bool   // told to look again
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

// heed takes in a notice.
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
	if turn && p.shown.Kind == rules.Reader && p.sight.Sees(rules.Reader) { // it wants to see more than a reader does
		turn, stale = false, true
		p.turn = 0
	}
	return turn, stale, removed
}
