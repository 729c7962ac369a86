package zk

import (
	"errors"
	"sync"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

// watches is what a session watches: one entry per node, shared by all who wait for it. An entry stays until the node
// changes, whether or not anybody still waits. Only if too many are kept for nobody, watches are taken back: a name that
// nobody uses may never change.
//
// The hand-off. If a watch on a node's data reports a deletion, the node has left its line: an amendment that gives a node
// another path also writes to it in the same transaction, and that write uses the watch up. Whatever anybody else does to
// the node can at worst make somebody look in vain. The deletion does not say whether others still stand ahead; see
// place.letsIn and awaiting.watchSecond.
type watches struct {
	mu         sync.Mutex
	all        map[string]*watch
	connection uint64     // counts the connections
	over       *wire.Conn // the connection over which they are set
	idle       int        // how many are kept for nobody
}

type watch struct {
	path     string
	settings [aspects]setting

	changes   int  // how often its data (for a directory, its children) have changed
	gone      bool // from its path
	left      bool // gone, and surely not amended
	handsOver bool // it is of this session, and leaves as the holder
	ours      bool // it is of this session, and waits or has waited
	idle      bool // it is kept for nobody

	waiters map[driverkit.Bell]struct{} // of each Await
}

// aspect is what can be watched about a node, in the order of the request that sets watches.
type aspect int

const (
	ofData     aspect = iota // its data, and its end
	ofComing                 // its creation
	ofChildren               // its children, and its end
	aspects
)

// setting is a watch at the server.
type setting struct {
	pending int // requests for it under way
	set     bool
	since   int64 // it reports, or will report, what happens after this transaction
	relied  bool  // somebody has made no request because one was under way
	lapses  int   // how often there had been none when it was asked for
	seen    *seen // what the node said
}

// seen is what a node said when it was read.
type seen struct {
	at    sight
	owner driver.Owner
	data  []byte
	last  int64 // the transaction that wrote it
}

// maxSeen is how many bytes a node may say and be remembered: watches are kept for nobody as well.
const maxSeen = 4 << 10

// armed reports whether the server will report the next change.
func (s *setting) armed() bool { return s.set && s.pending == 0 }

// tells reports whether the server reports changes after a transaction, or soon will.
func (s *setting) tells(since int64) bool { return s.isOn() && s.since <= since }

// isOn reports whether there is a watch, or soon will be.
func (s *setting) isOn() bool { return s.set || s.pending > 0 }

func (s *setting) begin(since int64) {
	if s.isOn() {
		since = min(since, s.since)
	} else {
		s.lapses++
	}
	s.since = since
	s.pending++
}

func (w *watch) ring() {
	for bell := range w.waiters {
		bell.Ring()
	}
}

// join adds a waiter to a node's watch. A node that has gone stays gone, but a directory may have come back.
func (t *watches) join(nodePath string, by driverkit.Bell) *watch {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.all[nodePath]
	if w == nil || w.gone {
		w = &watch{path: nodePath, waiters: make(map[driverkit.Bell]struct{})}
		t.all[nodePath] = w
	}
	w.waiters[by] = struct{}{}
	t.forget(w)
	return w
}

// joinOwn does the same for the waiter's own node.
func (t *watches) joinOwn(nodePath string, by driverkit.Bell) *watch {
	w := t.join(nodePath, by)
	t.mu.Lock()
	defer t.mu.Unlock()
	w.ours = true
	return w
}

func (t *watches) isOurs(w *watch) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return w.ours
}

func (t *watches) quit(w *watch, by driverkit.Bell) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(w.waiters, by)
	t.forget(w)
}

// forget is called with mu held. It takes away an entry that nobody waits for, unless the server still has a watch for it.
func (t *watches) forget(w *watch) {
	unwanted := len(w.waiters) == 0
	idle := unwanted && !w.gone && w.isSet()
	switch {
	case idle && !w.idle:
		t.idle++
	case !idle && w.idle:
		t.idle--
	}
	w.idle = idle
	if unwanted && !idle && t.all[w.path] == w {
		delete(t.all, w.path)
	}
}

// quit ends a wait for a node. If too many watches are kept for nobody, some are taken back.
func (s *session) quit(w *watch, by driverkit.Bell) {
	t := &s.watches
	t.quit(w, by)
	if s.service.keepsWatches.Load() {
		return
	}
	t.mu.Lock() // held until the requests are sent: whoever wants the watch again must come after them
	defer t.mu.Unlock()
	var requests []wire.Request
	for w := t.surplus(s.service.maxIdle); w != nil; w = t.surplus(s.service.maxIdle) {
		if w.settings[ofData].set || w.settings[ofComing].set {
			requests = append(requests, wire.Unwatch(w.path, false, s.unwatched))
		}
		if w.settings[ofChildren].set {
			requests = append(requests, wire.Unwatch(w.path, true, s.unwatched))
		}
	}
	if len(requests) > 0 {
		s.usable.Load().Send(requests...)
	}
}

// unwatched hears whether the server takes watches back.
func (s *session) unwatched(err error) {
	if unimplemented(err) {
		s.service.keepsWatches.Store(true)
	}
}

// surplus is called with mu held. It forgets an entry that is kept for nobody, if there are more than most, and returns it.
func (t *watches) surplus(most int) *watch {
	if t.idle <= most {
		return nil
	}
	for _, w := range t.all {
		if w.idle && !w.isPending() {
			w.idle = false
			t.idle--
			delete(t.all, w.path)
			return w
		}
	}
	return nil
}

func (w *watch) isPending() bool {
	for _, s := range w.settings {
		if s.pending > 0 {
			return true
		}
	}
	return false
}

func (w *watch) isSet() bool {
	for _, s := range w.settings {
		if s.isOn() {
			return true
		}
	}
	return false
}

// reconnected forgets what was set on another connection, so that it is set again.
func (t *watches) reconnected(over *wire.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.connection++
	t.over = over
	for _, w := range t.all {
		w.settings, w.handsOver = [aspects]setting{}, false
		w.ring()
		t.forget(w)
	}
}

func (t *watches) dataChanged(nodePath string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.all[nodePath]; w != nil {
		w.settings[ofData].set = false
		t.changed(w)
	}
}

// changed is called with mu held.
func (t *watches) changed(w *watch) {
	w.changes++
	w.ring()
	t.forget(w)
}

// deleted trusts only a watch that was set. While one is being set, the service also reports earlier deletions, whatever
// came before them.
func (t *watches) deleted(nodePath string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.all[nodePath]
	if w == nil {
		return
	}
	w.gone, w.left = true, w.settings[ofData].armed()
	w.ring()
	t.forget(w)
}

// dirChanged records that a directory was made, or that its children have changed.
func (t *watches) dirChanged(dir string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.all[dir]; w != nil {
		w.settings[ofComing].set = false
		w.settings[ofChildren].set = false
		t.changed(w)
	}
}

// sight is a time during which a server reports the changes of a node. It reports one before it answers, over the same connection,
// with anything that shows that change or a later one. So what was read stands until the sight is another one, also beside a list
// that came later.
type sight struct {
	of     *watch // nil: nobody watches it over this connection
	state  state
	lapses int
}

// sight returns the present one of a node, and what the node says, if that is known.
func (t *watches) sight(nodePath string, over *wire.Conn) (sight, *seen) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.sightNow(nodePath, over)
	if now.of != nil {
		if data := &now.of.settings[ofData]; data.armed() && data.seen != nil && data.seen.at == now {
			return now, data.seen
		}
	}
	return now, nil
}

// sightNow is called with mu held.
func (t *watches) sightNow(nodePath string, over *wire.Conn) sight {
	w := t.all[nodePath]
	if w == nil || w.gone || over != t.over || !w.settings[ofData].isOn() {
		return sight{}
	}
	return sight{w, t.stateNow(w), w.settings[ofData].lapses}
}

// keep remembers what was read since a sight began, if that lasts.
func (t *watches) keep(shown *seen) {
	w := shown.at.of
	if w == nil || len(shown.data) > maxSeen {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sightNow(w.path, t.over) == shown.at {
		w.settings[ofData].seen = shown
	}
}

// state is what is known of a node or a directory so far.
type state struct {
	changes    int
	gone       bool
	connection uint64
}

func (t *watches) state(w *watch) state {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stateNow(w)
}

// stateNow is called with mu held.
func (t *watches) stateNow(w *watch) state { return state{w.changes, w.gone, t.connection} }

// handsOver records that a holder of this session is about to leave.
func (t *watches) handsOver(nodePath string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.all[nodePath]; w != nil {
		w.handsOver = true
	}
}

// notice records that a node has gone without a watch firing. It reports whether that is news.
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

// interest is what a waiter wants to be told about a node.
type interest struct {
	*watch
	aspect aspect
}

// asked is an interest on its way.
type asked struct {
	interest
	changes int // how often the node had changed by then
}

// maxWatched is how many bytes of paths go into one request. A server drops a connection on which it is asked for more than a
// megabyte at once, and with it every other request of the session.
const maxWatched = 256 << 10

// batch is what one request for watches asks for.
type batch struct {
	all   []asked
	paths [aspects][]string
	bytes int
}

// arm sets watches for all interests not yet covered, with one request unless there are very many. Whatever happened after
// transaction since rings at once. It does not wait for the answer. After a reconnect, or an error, all waiters are rung, and
// arm again.
func (s *session) arm(since int64, interests ...interest) {
	t := &s.watches
	t.mu.Lock()
	connection := t.connection
	var batches []*batch
	for _, w := range interests {
		setting := &w.settings[w.aspect]
		switch {
		case w.gone:
		case setting.tells(since):
			setting.relied = setting.pending > 0
		default:
			setting.begin(since)
			if n := len(batches); n == 0 || batches[n-1].bytes >= maxWatched {
				batches = append(batches, new(batch))
			}
			b := batches[len(batches)-1]
			b.all = append(b.all, asked{w, w.changes})
			b.paths[w.aspect] = append(b.paths[w.aspect], w.path)
			b.bytes += len(w.path)
		}
	}
	t.mu.Unlock()
	for _, b := range batches {
		s.usable.Load().Send(wire.Watch(since, b.paths, func(err error) {
			t.answered(b.all, connection, err)
			if err != nil && !errors.Is(err, gozk.ErrConnectionClosed) {
				time.AfterFunc(driverkit.Jitter(driverkit.Pause(3)), func() { t.ring(b.all) })
			}
		}))
	}
}

// answered records the answer to a request for watches. It rings those who relied on a watch that is used up already, so
// that they arm again.
func (t *watches) answered(all []asked, connection uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if connection != t.connection {
		return // all of it was lost with the connection
	}
	for _, w := range all {
		setting := &w.settings[w.aspect]
		setting.pending--
		// An event between the request and its answer may have used the watch up.
		setting.set = setting.set || err == nil && w.changes == w.watch.changes
		if setting.pending == 0 {
			if setting.relied && !setting.set && err == nil {
				w.watch.ring()
			}
			setting.relied = false
		}
		t.forget(w.watch)
	}
}

func (t *watches) ring(all []asked) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range all {
		w.watch.ring()
	}
}
