package coord

import (
	"fmt"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Health is how a client stands with its service, as far as the client knows without asking. Package healthz answers a probe
// with it.
type Health struct {
	// Err is nil if nothing is known to be wrong; also if nothing was wanted of the service lately. Otherwise it is what Lock would
	// say now: ErrUnavailable while the service is out of reach, ErrDenied or ErrMissing if it cannot be used as it is, ErrTooWeak,
	// or ErrClosed after Shutdown or Close.
	Err error

	Session  bool          // a session is open
	Until    time.Time     // until when the service surely keeps it if nothing more is heard: perhaps past while nothing is held; zero without a session
	Holds    int           // holds that are not released, some of which may be lost
	Waiters  int           // calls that wait for their turn or for a session
	Recovery time.Duration // for how long nobody is granted anything, since the service may have forgotten who holds

	Trouble   error     // what went wrong last, even if it is over; nil: nothing yet
	TroubleAt time.Time // and when
}

// Health reports how the client stands with its service. It asks nobody and does not block. To know whether the service
// answers at this moment, ask it something, such as First.
func (c *Client) Health() Health {
	var h Health
	if r, ok := c.driver.(driver.Recovering); ok {
		h.Recovery = max(r.Recovery(), 0)
	}
	c.sharing.mu.Lock()
	defer c.sharing.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	h.Trouble, h.TroubleAt = c.trouble, c.troubleAt
	if o := c.opening; o != nil {
		h.Waiters = o.waiting
		if o.trouble != nil && h.Recovery == 0 {
			h.Err = fmt.Errorf("%w: %w", ErrUnavailable, o.trouble)
		}
	}
	if s := c.session; s != nil {
		h.Session, h.Until = true, s.Deadline()
		h.Holds, h.Waiters = len(s.holds), h.Waiters+s.waiting
		if h.Holds+h.Waiters > 0 && !s.inTouch() { // one on which nothing stands may be past its deadline
			h.Err = fmt.Errorf("%w: nothing was heard in time", ErrUnavailable)
		}
	} else if c.opening == nil {
		h.Err = c.refused
	}
	if c.life.Err() != nil {
		h.Err = c.noMore()
	}
	c.countShared(&h)
	return h
}

// countShared counts those who share a node, where so far the node was counted.
func (c *Client) countShared(h *Health) {
	for _, n := range c.sharing.nodes("") {
		h.Waiters += len(n.waiting)
		switch {
		case n.hold == nil:
			h.Waiters--
		case n.hold.session == c.session && n.hold.session.has(n.hold):
			h.Holds += len(n.inside) - 1
		}
	}
	h.Waiters = max(h.Waiters, 0) // of a node there may be nothing to count yet
}

// troubled notes what went wrong, in a text that is safe to show. It is called with mu held.
func (c *Client) troubled(err error) {
	if err != nil {
		c.trouble, c.troubleAt = err, time.Now()
	}
}
