package zk

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// hosts tells the client library which server is next.
//
// The library's own provider makes it wait a second after each round, with one server after each try, and drop what
// was queued; a short session does not survive that. So this one never tells of a round's end, but itself makes
// tries after the first round wait, a little.
type hosts struct {
	over    func() bool // the session has ended
	longest time.Duration

	mu    sync.Mutex
	list  []string
	next  int
	tries int // since the last success
}

const shortestPause = 20 * time.Millisecond

// Init, Len, Next and Connected are what the library calls.
func (h *hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = servers
	return nil
}

func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.list)
}

func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.list[h.next]
	h.next = (h.next + 1) % len(h.list)
	h.tries++
	// Only at the end of a round does the library ask itself whether it was closed.
	return server, h.over()
}

func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries = 0
}

// pause is how long to wait before the present try: not at all in the first round, then longer with every round.
func (h *hosts) pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	rounds := (h.tries - 1) / max(1, len(h.list))
	if rounds <= 0 {
		return 0
	}
	p := min(shortestPause<<min(rounds-1, 10), max(h.longest, shortestPause))
	return p*3/4 + rand.N(p/2)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
