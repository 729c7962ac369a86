package zk

import "sync"

// rewatch counts the setting-again of watches after reconnects: the library queues it once for each connection, among
// other requests, and if that connection breaks before it was sent, it is sent on the next one, where it is not yet
// that connection's own.
type rewatch struct {
	mu      sync.Mutex
	owed    int
	settled chan struct{} // closed when nothing is owed any more; nil before the first
}

// expect is called on each new connection, before the library queues the watches.
func (r *rewatch) expect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owed++; r.owed == 1 {
		r.settled = make(chan struct{})
	}
}

// sent is called when watches went out, or could not.
func (r *rewatch) sent() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owed == 0 {
		return // there were so many that it took several requests
	}
	if r.owed--; r.owed == 0 {
		close(r.settled)
	}
}

// giveUp is for when some never turn up: they were dropped in the library's queue.
func (r *rewatch) giveUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owed > 0 {
		r.owed = 0
		close(r.settled)
	}
}

// complete is closed when all were sent that are owed now.
func (r *rewatch) complete() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settled
}
