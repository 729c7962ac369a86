package main

import (
	"bufio"
	"encoding/json"
	"os"
	"sync"
	"time"
)

// What may happen to somebody who wants something.
const (
	want       = "want"       // an acquire begins
	granted    = "granted"    // it returned, with a hold
	believed   = "believed"   // at this time the hold was still thought valid
	downgraded = "downgraded" // a writer is a reader from here on
	releasing  = "releasing"  // the release begins
	released   = "released"   // the release returned
	lost       = "lost"       // the hold ended by itself, and its owner knows
	busy       = "busy"       // a try found others
	failed     = "failed"     // the acquire returned another error, or ran out of patience
	odd        = "odd"        // a group looked as none can
)

// An Event is one line in a worker's log.
type Event struct {
	At     time.Duration `json:"t"`
	Worker int           `json:"w"`
	Want   int64         `json:"n"` // which of the worker's wants it belongs to
	Line   string        `json:"l"`
	What   string        `json:"e"`
	Kind   string        `json:"k,omitempty"`
	Node   string        `json:"id,omitempty"`
	Token  int64         `json:"tok,omitempty"`
	Slot   int64         `json:"s,omitempty"` // of a job
	Round  uint64        `json:"r,omitempty"` // of a barrier
	Err    string        `json:"err,omitempty"`
}

// A journal is where a worker writes its events. Each is written at once: what a killed worker knew counts.
type journal struct {
	mu     sync.Mutex
	file   *os.File
	worker int
}

func (j *journal) note(e Event) {
	e.Worker = j.worker
	if e.At == 0 {
		e.At = mono()
	}
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		panic(err)
	}
}

// readEvents reads one worker's journal. Its last line may have been cut short.
func readEvents(path string) ([]Event, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var events []Event
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e Event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			events = append(events, e)
		}
	}
	return events, lines.Err()
}
