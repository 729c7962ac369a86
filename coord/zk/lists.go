package zk

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

// lists are the lists of directories under way, one per directory at a time. All who want one meanwhile share the next: a
// line may be long, and hundreds may join it at once.
//
// A list is asked for only after everybody who shares it has come, on the session's one connection. So it shows what each
// of them knew, or had asked for, by then.
type lists struct {
	mu   sync.Mutex
	next map[string]*sharedList // by directory, while a list of it is under way; nil: nobody wants another one
}

// sharedList is one list for all who want it.
type sharedList struct {
	fresh    bool          // the server must catch up with the leader first
	wanted   int           // by how many
	answered chan struct{} // closed when there is an answer:
	list     *wire.Listing
	err      error
}

// listAfter sends requests, and has a list of a directory asked for after them: right behind them, if none is under way. It
// may be given requests only while there is a connection.
func (s *session) listAfter(dir string, fresh bool, first ...wire.Request) *sharedList {
	t := &s.lists
	t.mu.Lock()
	defer t.mu.Unlock()
	l, busy := t.next[dir]
	if l == nil {
		l = &sharedList{answered: make(chan struct{})}
	}
	l.fresh = l.fresh || fresh
	l.wanted++
	if !busy && len(first) > 0 && !fresh {
		if room := s.window.enterNow(dir); room != nil {
			listed := s.send(dir, false, first...)
			t.next[dir] = nil
			t.start(s, dir, l, func() {
				s.received(l, room, listed)
				s.listAll(dir)
			})
			return l
		}
	}
	if len(first) > 0 {
		s.usable.Load().Send(first...)
	}
	t.next[dir] = l
	if !busy {
		t.start(s, dir, l, func() { s.listAll(dir) })
	}
	return l
}

// start is called with mu held.
func (t *lists) start(s *session, dir string, l *sharedList, run func()) {
	if !s.life.Go(run) {
		delete(t.next, dir)
		l.err = s.life.Why()
		close(l.answered)
	}
}

// listAll asks for one list of a directory after another, until nobody wants one.
func (s *session) listAll(dir string) {
	for s.lists.isWanted(dir) {
		room := s.window.enter(nil, s.life.Done(), dir)
		if room == nil || s.awaitUp(s.life.Context()) != nil {
			return // the session is over, and whoever waits knows
		}
		l, listed := s.sendList(dir)
		if l == nil {
			s.window.exit(room, 0)
			continue
		}
		s.received(l, room, listed)
	}
}

// isWanted reports whether anybody wants another list of a directory. If not, it records that none is under way.
func (t *lists) isWanted(dir string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.next[dir]; l == nil || l.wanted == 0 {
		delete(t.next, dir)
		return false
	}
	return true
}

// sendList asks for the next list of a directory, if anybody still wants one. Callers who come later share the one after
// it.
func (s *session) sendList(dir string) (*sharedList, func() (*wire.Listing, error)) {
	t := &s.lists
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.next[dir]
	if l == nil || l.wanted == 0 {
		return nil, nil
	}
	t.next[dir] = nil
	return l, s.send(dir, l.fresh)
}

// send asks for a list right behind other requests. What it returns waits for the answer.
func (s *session) send(dir string, fresh bool, requests ...wire.Request) func() (*wire.Listing, error) {
	ctx := s.life.Context()
	synced := func() error { return nil }
	if fresh { // on one connection: another server may lag behind the one that was told to catch up
		sync, done := wire.Sync(dir)
		requests = append(requests, sync)
		synced = func() error {
			_, err := answer(ctx, s, done)
			return err
		}
	}
	list, listed := wire.List(dir, false, s.zxids.Load())
	by := s.usable.Load()
	by.Send(append(requests, list)...)
	return func() (*wire.Listing, error) {
		err := synced()
		l, listErr := answer(ctx, s, listed)
		if err = cmp.Or(err, listErr); err != nil {
			return nil, err
		}
		l.By = by
		return l, nil
	}
}

// received waits for a list, and hands it to all who share it.
func (s *session) received(l *sharedList, room *listing, listed func() (*wire.Listing, error)) {
	l.list, l.err = listed()
	bytes := 0
	if l.err == nil {
		bytes = l.list.Bytes
	}
	s.window.exit(room, bytes)
	close(l.answered)
}

// wait waits for a list, or for the end of ctx or of the session.
func (l *sharedList) wait(ctx context.Context, s *session) (*wire.Listing, error) {
	select {
	case <-l.answered:
		return l.list, l.err
	case <-ctx.Done():
	case <-s.life.Done():
	}
	l.giveUp(s)
	return nil, s.stopped(ctx)
}

// giveUp says that one of those who wanted the list no longer does.
func (l *sharedList) giveUp(s *session) {
	s.lists.mu.Lock()
	defer s.lists.mu.Unlock()
	l.wanted--
}

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

// enterNow is enter for a caller that does not wait; nil: it would have to.
func (w *window) enterNow(dir string) *listing {
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
