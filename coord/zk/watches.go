package zk

import (
	"path"
	"sync"
	"time"

	"github.com/turnwise/turnwise/internal/bell"
)

// watches is what a session watches: one entry a node, shared by all who wait for it. No watch is taken back, so an
// entry stays until the node changes, whether or not anybody still waits.
//
// The hand-off. Whoever held with nobody ahead leaves by one transaction that writes its data and deletes it. Two
// watches are on the node, one on its data and one on its (never existing) children. The write fires the first,
// the deletion the second. So a deletion with a write right before it says that the node left as the holder: nobody
// is ahead of the one behind it, and no look is needed. A crash, or a node that gives up, shows as a deletion alone. A
// write alone says nothing, and is forgotten after markLife: what the service tells of one transaction arrives
// together, and servers from 3.9 on even tell its number with both. Nothing but a departure writes the data of the
// kinds that are trusted with this; an operator's hand would have to write to a node and have it removed within
// that time.
type watches struct {
	mu    sync.Mutex
	all   map[string]*watch
	epoch uint64 // counts the connections
}

// markLife is how long a write to a node is taken for the first half of a departure.
const markLife = 5 * time.Millisecond

type watch struct {
	path     string
	markable bool
	settings [aspects]setting

	changes int // how often its data, or a directory's children, have changed
	gone    bool
	left    bool // gone, and it left as the holder

	marked   bool // a write that may be the first half of a departure
	markedAt time.Time
	markZxid int64
	forget   *time.Timer

	waiters map[*waiter]struct{}
}

// aspect is what there is to watch at a node, in the order of the request that sets watches.
type aspect int

const (
	ofData     aspect = iota // its data, and its end
	ofComing                 // that it is made
	ofChildren               // its children, and its end
	aspects
)

// setting is a watch at the server.
type setting struct {
	asked int // requests for it under way
	set   bool
	since int64 // from this transaction on it tells, or will
}

// tells reports whether what happens after a transaction is told, or soon will be.
func (s *setting) tells(since int64) bool { return (s.set || s.asked > 0) && s.since <= since }

func (s *setting) ask(since int64) {
	if s.set || s.asked > 0 {
		since = min(since, s.since)
	}
	s.since = since
	s.asked++
}

// waiter is one Await.
type waiter struct {
	bell bell.Bell // look at your watches
}

func newWaiter() *waiter { return &waiter{bell: bell.New()} }

func (w *watch) ring() {
	for waiter := range w.waiters {
		waiter.bell.Ring()
	}
}

// join adds a waiter to a node's watch. What has gone stays gone, but a directory may have come again.
func (t *watches) join(nodePath string, by *waiter) *watch {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.all[nodePath]
	if w == nil || w.gone {
		c, _ := parseContender(path.Base(nodePath))
		w = &watch{path: nodePath, markable: c.markable(), waiters: make(map[*waiter]struct{})}
		t.all[nodePath] = w
	}
	w.waiters[by] = struct{}{}
	return w
}

func (t *watches) quit(w *watch, by *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(w.waiters, by)
	t.drop(w)
}

// drop is called with mu held. It forgets an entry that nobody needs, unless the server still has a watch for it.
func (t *watches) drop(w *watch) {
	if len(w.waiters) > 0 || !w.gone && w.isSet() {
		return
	}
	if t.all[w.path] == w {
		delete(t.all, w.path)
	}
}

func (w *watch) isSet() bool {
	for _, s := range w.settings {
		if s.set || s.asked > 0 {
			return true
		}
	}
	return false
}

// reconnected: what was set on another connection has to be set again. Between the two a departure and a mere write
// followed by a crash look the same.
func (t *watches) reconnected() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.epoch++
	for _, w := range t.all {
		w.settings = [aspects]setting{}
		w.marked = false
		w.ring()
		t.drop(w)
	}
}

// connection counts the connections.
func (t *watches) connection() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.epoch
}

// dataChanged: the first half of a departure is one that a watch tells. Before that is set the service tells of changes
// that are no news, too.
func (t *watches) dataChanged(nodePath string, zxid int64, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.all[nodePath]
	if w == nil {
		return
	}
	data := &w.settings[ofData]
	watched := data.set && data.asked == 0
	data.set = false
	if !w.markable || !watched {
		t.changed(w)
		return
	}
	w.marked, w.markedAt, w.markZxid = true, now, zxid
	if w.forget == nil {
		w.forget = time.AfterFunc(markLife, func() { t.unmark(w) })
	} else {
		w.forget.Reset(markLife)
	}
}

// changed is called with mu held.
func (t *watches) changed(w *watch) {
	w.changes++
	w.ring()
	t.drop(w)
}

// unmark forgets a write that no deletion followed.
func (t *watches) unmark(w *watch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.marked && !w.gone {
		w.marked = false
		t.changed(w)
	}
}

func (t *watches) deleted(nodePath string, zxid int64, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.all[nodePath]
	if w == nil {
		return
	}
	w.gone = true
	w.left = w.marked && w.sameTransaction(zxid, now)
	if w.forget != nil {
		w.forget.Stop()
	}
	w.ring()
	t.drop(w)
}

// sameTransaction reports whether a deletion belongs to the write before it.
func (w *watch) sameTransaction(zxid int64, now time.Time) bool {
	if zxid > 0 && w.markZxid > 0 {
		return zxid == w.markZxid
	}
	return now.Sub(w.markedAt) < markLife
}

// dirChanged: a directory has come, or its children are others.
func (t *watches) dirChanged(dir string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.all[dir]; w != nil {
		w.settings[ofComing].set = false
		w.settings[ofChildren].set = false
		t.changed(w)
	}
}

// look gives what the entry of a directory, or a node, says by now.
func (t *watches) look(w *watch) (changes int, gone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return w.changes, w.gone
}
