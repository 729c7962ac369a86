package zk

import (
	"path"
	"sync"
	"time"

	"github.com/turnwise/turnwise/internal/bell"
)

// watches is what a session watches: one entry a node, shared by all who wait for it. The library cannot take a watch
// back, so an entry stays until the node changes, whether or not anybody still waits.
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
	epoch uint64 // the present connection
}

// markLife is how long a write to a node is taken for the first half of a departure.
const markLife = 5 * time.Millisecond

type watch struct {
	path     string
	markable bool

	// The two watches at the server.
	data, children setting

	gone    bool
	left    bool   // gone, and it left as the holder
	version int32  // of its data, as read last
	owner   int64  // the session it belongs to, as read last
	fired   uint64 // how often the data watch fired
	epoch   uint64 // the connection on which the data watch was set
	denied  error  // it may not be read
	list    *list  // of a directory: what it held when the watch on its children was set; never changed, but replaced

	marked   bool // a write that may be the first half of a departure
	markedAt time.Time
	markZxid int64
	forget   *time.Timer

	waiters map[*waiter]struct{}
}

// setting is the state of a watch at the server.
type setting int

const (
	unset setting = iota
	asked
	set
)

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
	if len(w.waiters) > 0 || !w.gone && (w.data != unset || w.children != unset) {
		return
	}
	if t.all[w.path] == w {
		delete(t.all, w.path)
	}
}

// reconnected: what was set on another connection is set again by the library, but between the two connections a
// departure and a mere write followed by a crash look the same.
func (t *watches) reconnected(epoch uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.epoch = epoch
}

func (t *watches) dataChanged(nodePath string, zxid int64, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.all[nodePath]
	if w == nil {
		return
	}
	w.data = unset
	w.fired++
	if !w.markable || w.epoch != t.epoch {
		w.ring()
		t.drop(w)
		return
	}
	w.marked, w.markedAt, w.markZxid = true, now, zxid
	if w.forget == nil {
		w.forget = time.AfterFunc(markLife, func() { t.unmark(w) })
	} else {
		w.forget.Reset(markLife)
	}
}

// unmark forgets a write that no deletion followed.
func (t *watches) unmark(w *watch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.gone {
		return
	}
	w.marked = false
	w.ring()
	t.drop(w)
}

func (t *watches) deleted(nodePath string, zxid int64, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.all[nodePath]
	if w == nil {
		return
	}
	w.gone = true
	w.left = w.marked && w.epoch == t.epoch && w.sameTransaction(zxid, now)
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

// dirChanged: a watched directory has come, or its children are others.
func (t *watches) dirChanged(dir string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.all[dir]
	if w == nil {
		return
	}
	w.children = unset
	w.fired++
	w.ring()
	t.drop(w)
}
