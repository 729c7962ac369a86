package quorum

import (
	"crypto/sha256"
	"strconv"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/redis/internal/server"
)

// hearsay hears the acceptors, and believes a note that a majority has told for one ballot in one term: then the swap was applied.
type hearsay struct {
	majority func(term uint64) int // of the servers of a term; more than there are if it is not known who those are
	patience func() time.Duration  // with a note that too few have told

	mu      sync.Mutex // held while hear is called
	hear    func([]byte)
	stopped bool
	rumours map[string]*rumour
	told    map[string]*tellers
	order   []string          // of told
	latest  map[string]ballot // by register
}

// A call is when acceptors were asked to accept a swap, and to tell its notes. Those who have done so in one term are no votes in another.
type call struct {
	ballot ballot
	term   uint64
}

func (c call) less(d call) bool {
	return c.ballot.less(d.ballot) || c.ballot == d.ballot && c.term < d.term
}

// tellers are those who have told a note at one call.
type tellers struct {
	at   call
	from map[int]string // acceptors, and the memories of which they spoke: two names may lead to one server
}

// repeats reports whether an acceptor did not say this by itself: somebody has repeated it, perhaps before the swap was
// applied.
func (t *tellers) repeats(from int, at call) bool {
	if t.at.less(at) { // the swap is proposed again
		return false
	}
	_, said := t.from[from]
	if !said && at == t.at {
		t.from[from] = ""
		return false
	}
	return true
}

// A rumour is a note that too few have told so far.
type rumour struct {
	tellers
	doubt *time.Timer
}

// servers is how many have told it.
func (r *rumour) servers() int {
	all := make(map[string]struct{}, len(r.from))
	for _, memory := range r.from {
		all[memory] = struct{}{}
	}
	return len(all)
}

// maxTold bounds what is remembered to keep notes from being heard twice, or out of order: acceptors that tell one so much
// later than a majority have lost their connection in between, and that is said as well.
const maxTold = 1024

func newHearsay(majority func(term uint64) int, hear func([]byte), patience func() time.Duration) *hearsay {
	return &hearsay{
		majority: majority,
		patience: patience,
		hear:     hear,
		rumours:  make(map[string]*rumour),
		told:     make(map[string]*tellers),
		latest:   make(map[string]ballot),
	}
}

// tell is called with what an acceptor tells: its memory and a note.
func (h *hearsay) tell(from int, text []byte) {
	switch {
	case text == nil:
		h.say(from, "", nil)
	case len(text) >= server.IDSize: // else it is not ours
		h.say(from, string(text[:server.IDSize]), text[server.IDSize:])
	}
}

// say is called with a note that an acceptor tells. A note counts once a majority has told it for one ballot in one term. Until then its
// swap may yet turn out not to be applied, and a listener must not believe that it has a turn.
func (h *hearsay) say(from int, memory string, note []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return
	}
	if note == nil { // some may have been lost
		h.hear(nil)
		return
	}
	if len(note) < tagSize { // not ours
		return
	}
	// Whoever may publish can copy the head of a note: only votes for the same text add up.
	text := sha256.Sum256(note[tagSize:])
	what, key := string(note[callSize:tagSize])+string(text[:16]), string(note[callSize+8:callSize+16])
	at := call{ballot: parseBallot(string(note[:ballotSize]))}
	at.term, _ = strconv.ParseUint(string(note[ballotSize:callSize]), 10, 64)
	if told := h.told[what]; told != nil {
		if told.repeats(from, at) {
			h.hear(nil)
		}
		return
	}
	r := h.rumours[what]
	if r == nil && len(h.rumours) >= maxTold { // somebody makes them up
		h.hear(nil)
		return
	}
	if r == nil {
		r = &rumour{tellers: tellers{at: at, from: make(map[int]string)}}
		r.doubt = time.AfterFunc(h.patience(), func() { h.doubted(what, r) })
		h.rumours[what] = r
	}
	if r.at.less(at) { // the swap is proposed again, or in another term: the earlier votes do not add up with these
		r.at = at
		clear(r.from)
	} else if at.less(r.at) {
		return
	}
	if r.from[from] == "" { // it cannot speak for two
		r.from[from] = memory
	}
	if r.servers() < h.majority(at.term) {
		return
	}
	r.doubt.Stop()
	delete(h.rumours, what)
	h.told[what] = &tellers{at, r.from}
	if h.order = append(h.order, what); len(h.order) > maxTold {
		delete(h.told, h.order[0])
		h.order = h.order[1:]
	}
	if at.ballot.less(h.latest[key]) {
		h.hear(nil) // a later one came first
		return
	}
	if len(h.latest) > maxTold {
		clear(h.latest)
	}
	h.latest[key] = at.ballot
	h.hear(note[tagSize:])
}

// stop has it say nothing more, not even that something was doubted.
func (h *hearsay) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	for _, r := range h.rumours {
		r.doubt.Stop()
	}
}

// doubted is called when too few have told a note: its swap was not applied, or others who told it were not heard.
func (h *hearsay) doubted(what string, r *rumour) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rumours[what] == r && !h.stopped {
		delete(h.rumours, what)
		h.hear(nil)
	}
}
