package zk

import (
	"errors"
	"path"
	"sync"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

// watches is what a session watches: one entry for each node, shared by all who wait for it. No watch is taken back, so
// an entry stays until the node changes, whether or not anybody still waits.
//
// The hand-off. Whoever held with nobody ahead leaves by one transaction that writes to its node and deletes it. Two
// watches are on the node, one on its data and one on its children, which never exist. The write fires the first, the
// deletion the second. So a deletion with a write right before it says that the node left as the holder: nobody is
// ahead of the one behind it, and no look is needed. A crash, or a node that gives up, shows as a deletion alone. A
// write alone says nothing, and is forgotten after markLife: events of one transaction arrive together, and servers
// from 3.9 on even give its number with both. Nothing but a departure writes to nodes of the kinds that are trusted
// with this; an operator would have to write to a node, and the node to be removed, within that time.
type watches struct {
	mu         sync.Mutex
	all        map[string]*watch
	connection uint64 // counts the connections
}

// markLife is how long a write to a node is taken for the first half of a departure.
const markLife = 5 * time.Millisecond

type watch struct {
	path     string
	markable bool
	settings [aspects]setting

	changes int // how often its data (or, of a directory, its children) have changed
	gone    bool
	became  driver.Change // how it went, if a watch told

	marked   bool // a write that may be the first half of a departure
	markedAt time.Time
	markZxid int64
	forget   *time.Timer

	waiters map[driverkit.Bell]struct{} // of each Await
}

// aspect is what can be watched at a node, in the order of the request that sets watches.
type aspect int

const (
	ofData     aspect = iota // its data, and its end
	ofComing                 // that it is made
	ofChildren               // its children, and its end
	aspects
)

// setting is a watch at the server.
type setting struct {
	pending int // requests for it under way
	set     bool
	since   int64 // it tells, or will tell, what happens after this transaction
}

// armed reports whether the next change will be told.
func (s *setting) armed() bool { return s.set && s.pending == 0 }

// tells reports whether changes after a transaction are told, or soon will be.
func (s *setting) tells(since int64) bool { return (s.set || s.pending > 0) && s.since <= since }

func (s *setting) begin(since int64) {
	if s.set || s.pending > 0 {
		since = min(since, s.since)
	}
	s.since = since
	s.pending++
}

func (w *watch) ring() {
	for bell := range w.waiters {
		bell.Ring()
	}
}

// join adds a waiter to a node's watch. A node that has gone stays gone, but a directory may have come again.
func (t *watches) join(nodePath string, by driverkit.Bell) *watch {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.all[nodePath]
	if w == nil || w.gone {
		c, _ := parseContender(path.Base(nodePath))
		w = &watch{path: nodePath, markable: c.markable(), waiters: make(map[driverkit.Bell]struct{})}
		t.all[nodePath] = w
	}
	w.waiters[by] = struct{}{}
	return w
}

func (t *watches) quit(w *watch, by driverkit.Bell) {
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
		if s.set || s.pending > 0 {
			return true
		}
	}
	return false
}

// reconnected forgets what was set on another connection, so that it is set again. What happened between the two
// connections does not tell a departure from a mere write followed by a crash.
func (t *watches) reconnected() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.connection++
	for _, w := range t.all {
		w.settings = [aspects]setting{}
		w.marked = false
		w.ring()
		t.drop(w)
	}
}

// dataChanged takes a write for the first half of a departure only if a watch that was set told of it. While a watch is
// being set, the service also tells of earlier changes.
func (t *watches) dataChanged(nodePath string, zxid int64, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.all[nodePath]
	if w == nil {
		return
	}
	data := &w.settings[ofData]
	watched := data.armed()
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
	switch {
	case w.marked && w.sameTransaction(zxid, now):
		w.became = driver.HandedOn
	case w.markable && w.settings[ofData].armed():
		w.became = driver.Gone // a mark would have been told
	}
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

// dirChanged records that a directory has come, or that its children have changed.
func (t *watches) dirChanged(dir string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.all[dir]; w != nil {
		w.settings[ofComing].set = false
		w.settings[ofChildren].set = false
		t.changed(w)
	}
}

// state is what is known of a node, or a directory, by now.
type state struct {
	changes    int
	gone       bool
	connection uint64
}

func (t *watches) state(w *watch) state {
	t.mu.Lock()
	defer t.mu.Unlock()
	return state{w.changes, w.gone, t.connection}
}

// change says what became of a node, given the names that stand in its line by now.
func (t *watches) change(w *watch, names []string) driver.Change {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case w.became == driver.HandedOn:
		return driver.HandedOn
	case w.gone && amendedIn(names, path.Base(w.path)), !w.gone && !w.markable:
		return driver.Amended
	}
	return w.became
}

// notice records that a node has gone without a watch telling. It reports whether that is news.
func (t *watches) notice(w *watch) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.gone {
		return false
	}
	w.gone = true
	w.ring()
	return true
}

// wish is what a waiter wants to be told of a node.
type wish struct {
	*watch
	aspect aspect
}

// wished is a wish on its way.
type wished struct {
	wish
	changes int // of the node until then
}

// arm sees to it, with one request, that watches are set for all wishes. Whatever happened after the transaction since
// rings at once. It does not wait for the answer; after a reconnect, or trouble, all waiters are rung, and arm again.
func (s *session) arm(since int64, wishes ...wish) {
	t := &s.watches
	t.mu.Lock()
	connection := t.connection
	var all []wished
	var paths [aspects][]string
	for _, w := range wishes {
		// Between the two halves of a departure there is no point in setting a watch.
		if setting := &w.settings[w.aspect]; !w.gone && !w.marked && !setting.tells(since) {
			setting.begin(since)
			all = append(all, wished{w, w.changes})
			paths[w.aspect] = append(paths[w.aspect], w.path)
		}
	}
	t.mu.Unlock()
	if len(all) == 0 {
		return
	}
	s.usable.Load().Send(wire.Watch(since, paths, func(err error) {
		t.answered(all, connection, err)
		if err != nil && !errors.Is(err, gozk.ErrConnectionClosed) {
			time.AfterFunc(driverkit.Pause(3), func() { t.ring(all) })
		}
	}))
}

// answered records the answer to a request for watches.
func (t *watches) answered(all []wished, connection uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if connection != t.connection {
		return // nothing is set any more
	}
	for _, w := range all {
		setting := &w.settings[w.aspect]
		setting.pending--
		// An event between the request and its answer may have used the watch up.
		setting.set = setting.set || err == nil && w.changes == w.watch.changes
		t.drop(w.watch)
	}
}

func (t *watches) ring(all []wished) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range all {
		w.watch.ring()
	}
}
