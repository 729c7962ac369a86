// Package trace records who had which line, and when, and judges such records of many processes: did two ever have a
// line at once that only one may have, was anybody let in out of turn, was a token given twice?
//
//	client, err := zk.Connect(ctx, servers, zk.WithClient(coord.WithObserver(trace.To(file, "prod"))))
//
// and later, with the files of all processes,
//
//	turnwise audit *.jsonl
//
// docs/audit.md says what the judgement rests on, what can be told from a trace and what cannot.
package trace

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord"
)

// To returns an Observer that writes a line of JSON to w for each thing that happens. A client may have other Observers
// beside it: see coord.WithObserver. Several may write to one file that is open for appending.
//
// service names the service that the lines are of. Clients that meet in a line must give it the same name. Clients on
// different services, or with different roots or namespaces, must give different names: their lines and tokens have
// nothing to do with each other.
//
// Each line is written by a single call of w.Write, a little after the fact. If w is slow, nobody waits for it, but
// what is yet to be written takes memory. If a write fails, its line is lost, and the audit says that something is
// missing. Close the client before the program ends, or the last lines may be missing as well.
func To(w io.Writer, service string) *coord.Observer {
	t := &tracer{w: w}
	t.fixed = record{V: version, By: fmt.Sprintf("%016x", rand.Uint64()), Clock: local.id, PID: os.Getpid(), Service: service}
	t.fixed.Host, _ = os.Hostname()
	return &coord.Observer{
		SessionOpened: func(at time.Time) { t.write(at, record{Event: opened}) },
		SessionEnded: func(at time.Time, why error) {
			r := record{Event: ended}
			if why != nil {
				r.Error = why.Error()
			}
			t.write(at, r)
		},
		OpenFailed: func(at time.Time, err error) { t.write(at, record{Event: failed, Error: err.Error()}) },
		Waiting:    func(at time.Time, me coord.Node, ahead int) { t.write(at, of(waiting, me)) },
		Rejoining:  func(at time.Time, lost coord.Node) { t.write(at, of(rejoining, lost)) },
		Granted: func(at time.Time, me coord.Node, waited time.Duration) {
			r := of(granted, me)
			r.Waited = waited
			t.write(at, r)
		},
		Amended: func(at time.Time, me coord.Node) { t.write(at, of(amended, me)) },
		Released: func(at time.Time, me coord.Node, held time.Duration) {
			r := of(released, me)
			r.Held = held
			t.write(at, r)
		},
		Lost: func(at time.Time, me coord.Node, err error) {
			r := of(lost, me)
			r.Error = err.Error()
			t.write(at, r)
		},
	}
}

func of(event string, n coord.Node) record {
	return record{Event: event, Line: n.Line, Kind: n.Kind, ID: n.ID, Token: n.Token}
}

type tracer struct {
	w     io.Writer
	fixed record

	mu   sync.Mutex
	n    int64
	torn bool // the last write left half a line
}

func (t *tracer) write(at time.Time, r record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
	f := t.fixed
	r.V, r.By, r.Clock, r.Host, r.PID, r.Service, r.N = f.V, f.By, f.Clock, f.Host, f.PID, f.Service, t.n
	r.Time, r.Ticks = at.UTC(), local.at(at)
	line, err := json.Marshal(r)
	if err != nil {
		return
	}
	if t.torn {
		line = append([]byte{'\n'}, line...)
	}
	line = append(line, '\n')
	n, err := t.w.Write(line)
	t.torn = err != nil && (n > 0 || t.torn)
}
