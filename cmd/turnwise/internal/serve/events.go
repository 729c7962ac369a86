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

// events are boards in the form in which browsers get them. However many browsers there are, each event is encoded once.
type events struct {
	mu    sync.Mutex
	board *lines.Board
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

// event returns a board for a browser that has an earlier one, or none.
func (e *events) event(board, has *lines.Board) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.board != board {
		e.board, e.since = board, make(map[*lines.Board][]byte)
	}
	if e.since[has] == nil {
		e.since[has] = write(board, has)
	}
	return e.since[has]
}

func write(board, has *lines.Board) []byte {
	if has == nil {
		return frame("board", board)
	}
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
	return frame("change", c)
}

// frame returns an event as it goes over the wire.
func frame(kind string, v any) []byte {
	return fmt.Appendf(nil, "event: %s\ndata: %s\n", kind, status.JSON(v)) // which is one line
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
		if _, err := w.Write(p.events.event(board, has)); err != nil || conn.Flush() != nil {
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
