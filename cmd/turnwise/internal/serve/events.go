package serve

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/lines"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
)

// texts are boards in the forms in which browsers and programs get them. However many there are, each text is encoded once.
type texts struct {
	mu    sync.Mutex
	board *lines.Board
	whole []byte                  // as JSON; nil: nobody has asked for that
	since map[*lines.Board][]byte // the difference from boards that browsers have; nil: from nothing
}

// change is the difference from an earlier board. What is not in it has stayed as it was.
type change struct {
	Version int             `json:"v"`
	Time    time.Time       `json:"time"`
	State   lines.State     `json:"state"`
	AsOf    *time.Time      `json:"as_of,omitempty"`
	Error   string          `json:"error,omitempty"`
	Lines   []lines.Line    `json:"lines,omitempty"`
	Gone    []string        `json:"gone,omitempty"`
	More    int             `json:"more"`
	Owners  *[]lines.Owner  `json:"owners,omitempty"`
	Waits   *[]lines.Wait   `json:"waits,omitempty"`
	Circles *[]lines.Circle `json:"circles,omitempty"`
}

// json returns a board for a program.
func (t *texts) json(board *lines.Board) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.encode(board)
}

// event returns a board for a browser that has an earlier one, or none.
func (t *texts) event(board, has *lines.Board) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turnTo(board)
	if t.since[has] == nil {
		if has == nil {
			t.since[has] = frame("board", t.encode(board))
		} else {
			t.since[has] = frame("change", status.JSON(difference(board, has)))
		}
	}
	return t.since[has]
}

// encode needs mu.
func (t *texts) encode(board *lines.Board) []byte {
	t.turnTo(board)
	if t.whole == nil {
		t.whole = status.JSON(board)
	}
	return t.whole
}

// turnTo needs mu.
func (t *texts) turnTo(board *lines.Board) {
	if t.board != board {
		t.board, t.whole, t.since = board, nil, make(map[*lines.Board][]byte)
	}
}

func difference(board, has *lines.Board) change {
	c := change{Version: board.Version, Time: board.Time, State: board.State, AsOf: board.AsOf, Error: board.Error, More: board.More}
	c.Lines, c.Gone = board.Changes(has)
	if !slices.Equal(board.Owners, has.Owners) {
		c.Owners = &board.Owners
	}
	if !slices.Equal(board.Waits, has.Waits) {
		c.Waits = &board.Waits
	}
	if !reflect.DeepEqual(board.Circles, has.Circles) {
		c.Circles = &board.Circles
	}
	return c
}

// frame returns an event as it goes over the wire, of a line of JSON.
func frame(kind string, line []byte) []byte {
	return fmt.Appendf(nil, "event: %s\ndata: %s\n", kind, line)
}

// listen sends board after board, always the newest.
func (p *Page) listen(w http.ResponseWriter, r *http.Request) {
	if p.browsers.Add(1) > mostBrowsers {
		p.browsers.Add(-1)
		refuse(w, http.StatusServiceUnavailable, "too many browsers are connected")
		return
	}
	defer p.browsers.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy that buffers would make it late
	if r.Method == http.MethodHead {
		return
	}
	defer p.survey.Look()()
	conn := http.NewResponseController(w)
	var has *lines.Board
	for {
		board, changed := p.survey.Board()
		_ = conn.SetWriteDeadline(time.Now().Add(writeFor))
		if _, err := w.Write(p.texts.event(board, has)); err != nil || conn.Flush() != nil {
			return
		}
		has = board
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}
