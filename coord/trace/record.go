package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
)

// version changes when a field is removed or changes its meaning.
const version = 1

// What a record can tell.
const (
	opened    = "opened"    // the client has a session
	ended     = "ended"     // and has it no more
	failed    = "failed"    // it got none
	waiting   = "waiting"   // a node had to wait when it joined
	rejoining = "rejoining" // it lost its place, and joins again
	granted   = "granted"   // it has its turn
	amended   = "amended"   // it has the line as another kind from now on
	released  = "released"  // it was held until now
	lost      = "lost"      // it was held until now, and lost then or later
)

// record is a line of a trace. Each makes sense by itself, so files can be cut and joined at will.
type record struct {
	V       int         `json:"v"`
	Time    time.Time   `json:"time"` // when it happened, by the clock of the machine
	Event   string      `json:"event"`
	Service string      `json:"service,omitempty"`
	Line    string      `json:"line,omitempty"`
	Token   coord.Token `json:"token,string,omitempty"` // text, since it may be too large for a number in JSON
	Kind    string      `json:"kind,omitempty"`
	ID      string      `json:"id,omitempty"` // of the node

	Waited time.Duration `json:"waited,omitempty"` // ns; how long ago Acquire was called
	Held   time.Duration `json:"held,omitempty"`   // ns
	Error  string        `json:"error,omitempty"`

	Host  string `json:"host,omitempty"`
	PID   int    `json:"pid"`
	By    string `json:"by"`              // which Observer wrote it
	N     int64  `json:"n"`               // the record's number among that Observer's, from 1
	Clock string `json:"clock,omitempty"` // whose ticks they are: records that share a clock can be put in one order
	Ticks int64  `json:"ticks"`           // ns
}

// tellsOfTurn reports whether it says who had a line, and when.
func (r *record) tellsOfTurn() bool {
	switch r.Event {
	case granted, amended, released, lost:
		return true
	}
	return false
}

var errForeign = errors.New("no line of a trace")

// parse reads a line. If one process died in the middle of a line and the next one went on in it, the line is the
// latter's.
func parse(line []byte) (record, error) {
	var r record
	err := json.Unmarshal(line, &r)
	if i := bytes.LastIndex(line, []byte(`{"v":`)); err != nil && i > 0 {
		r = record{}
		err = json.Unmarshal(line[i:], &r)
	}
	switch {
	case err != nil:
		return r, errForeign
	case r.V > version:
		return r, fmt.Errorf("it was written by a newer turnwise (v %d)", r.V)
	case r.V != version, r.By == "", r.N <= 0, r.Event == "",
		r.tellsOfTurn() && (r.Line == "" || !driver.ValidKind(r.Kind)),
		r.Time.Year() < 1970, r.Time.Year() > 2200, r.Ticks > most, r.Ticks < -most, r.Waited < 0, r.Waited > most:
		return r, errForeign
	}
	return r, nil
}

// most is how large numbers may be that are added to each other, so that the sum does not overflow.
const most = 1 << 61
