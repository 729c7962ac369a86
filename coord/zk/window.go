package zk

import (
	"slices"
	"sync"
)

// window limits how many bytes of lists are on their way to us at once. Otherwise, when many join long lines, answers pile
// up in the server's memory, and here they delay all other answers, including those that renew the session.
type window struct {
	mu      sync.Mutex
	open    int            // bytes on their way
	waiting []*listing     // in order
	sizes   map[string]int // by directory, of its last list
}

const (
	windowBytes = 8 << 20
	unknownList = 256 << 10 // what a list is taken for that we have never seen
	leastList   = 32 << 10  // what a short one is taken for, so that there are not too many
	knownSizes  = 4096      // directories whose sizes are remembered
)

// listing is one list on its way.
type listing struct {
	dir   string
	bytes int           // how many it is expected to take
	may   chan struct{} // closed when it may be asked for
}

// try is enter for a caller that does not wait; nil: it would have to.
func (w *window) try(dir string) *listing {
	w.mu.Lock()
	defer w.mu.Unlock()
	expected := w.expected(dir)
	if len(w.waiting) > 0 || !w.fits(expected) {
		return nil
	}
	w.open += expected
	return &listing{dir: dir, bytes: expected}
}

// enter waits until a list may be asked for, or one of the channels is closed. Each enter that succeeds must be followed
// by an exit.
func (w *window) enter(given, over <-chan struct{}, dir string) *listing {
	w.mu.Lock()
	l := &listing{dir: dir, may: make(chan struct{})}
	w.waiting = append(w.waiting, l)
	w.admit()
	w.mu.Unlock()
	select {
	case <-l.may:
		return l
	case <-given:
	case <-over:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.waiting, l); i >= 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
	}
	w.open -= l.bytes // zero, unless it was admitted just now
	w.admit()
	return nil
}

// exit is told how long the list was; 0: it never came.
func (w *window) exit(l *listing, bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open -= l.bytes
	if bytes > 0 {
		if len(w.sizes) >= knownSizes {
			clear(w.sizes)
		}
		w.sizes[l.dir] = bytes
	}
	w.admit()
}

// admit is called with mu held.
func (w *window) admit() {
	for len(w.waiting) > 0 {
		l := w.waiting[0]
		expected := w.expected(l.dir)
		if !w.fits(expected) {
			return
		}
		l.bytes = expected
		w.open += expected
		w.waiting = w.waiting[1:]
		close(l.may)
	}
}

// expected is how long a list will probably be.
func (w *window) expected(dir string) int {
	if n, known := w.sizes[dir]; known {
		return max(n, leastList)
	}
	return unknownList
}

func (w *window) fits(bytes int) bool { return w.open == 0 || w.open+bytes <= windowBytes }
