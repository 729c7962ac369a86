package zk

import (
	"sync"
	"time"
)

// hearsay is what the leader surely knows of us. A server tells the leader whom it has heard from when the leader asks,
// each half tick, and ticks last up to half the shortest session; a write that goes through the server does not tell it. So
// when the leader commits a request, it knows of what the server had received a quarter of the timeout before that request
// was sent. If the server is cut off right then, the leader counts from there.
type hearsay struct {
	mu     sync.Mutex
	known  time.Time // when something was sent that the leader knows of
	recent []exchange
}

// exchange is a request that has been answered.
type exchange struct{ sent, answered time.Time }

// connected starts over with a new connection, which the leader itself has agreed to. The previous server may never have
// passed on what it heard.
func (h *hearsay) connected(asked time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known, h.recent = asked, nil
}

// heard records a request that the server has received. If several come close together, one is enough.
func (h *hearsay) heard(sent, answered time.Time, close time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.recent); n == 0 || answered.Sub(h.recent[n-1].answered) > close {
		h.recent = append(h.recent, exchange{sent, answered})
	}
}

// by returns when the latest request that the server had received by then was sent.
func (h *hearsay) by(then time.Time) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.recent) > 0 && !h.recent[0].answered.After(then) {
		if e := h.recent[0]; e.sent.After(h.known) {
			h.known = e.sent
		}
		h.recent = h.recent[1:]
	}
	return h.known
}
