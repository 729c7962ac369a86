package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// watch listens to one topic.
type watch struct {
	s     *Store
	label string

	memory   *memory // that revision belongs to
	revision string  // up to which all was heard; "": that is to be found out

	mu      sync.Mutex
	hear    func([]byte)
	stopped bool
}

func (w *watch) tell(note []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.hear(note)
	}
}

const (
	// watchFor is how long a watch lasts before the server ends it, and another one goes on where it ended.
	watchFor = 5 * time.Minute

	// openFor is how long the server may take to begin one.
	openFor = 10 * time.Second
)

// begin begins to listen to what is told from now on.
func (w *watch) begin(ctx context.Context, known *memory) (*stream, error) {
	if err := w.locate(ctx, known); err != nil {
		return nil, err
	}
	var st *stream
	err := patiently(ctx, func() (err error) {
		st, err = w.open(ctx)
		return err
	})
	return st, err
}

// locate finds out the revision that is there now. The list is of leases that tell the topic, which are few.
func (w *watch) locate(ctx context.Context, known *memory) error {
	before := known.revision.Load()
	var now leases
	err := w.s.ask(ctx, request{method: http.MethodGet, query: url.Values{"labelSelector": {w.label}, "limit": {"1"}}}, &now)
	if err == nil {
		err = w.s.saw(known, before, now.Metadata.ResourceVersion)
	}
	if err == nil && now.Metadata.ResourceVersion == "" {
		err = errors.New("the API server's answer has no revision")
	}
	if err == nil {
		w.memory, w.revision = known, now.Metadata.ResourceVersion
	}
	return err
}

// stream is a watch that the server has begun.
type stream struct {
	body  io.ReadCloser
	end   func()
	until time.Time // the server ends it then
}

// open has the server tell what comes after the revision. ctx is for the opening alone; the stream ends with the memory.
func (w *watch) open(ctx context.Context) (*stream, error) {
	patience := watchFor + rand.N(watchFor/5) // so that not all that began together begin again together
	life, cancel := context.WithTimeout(w.memory.over, patience+openFor)
	stop := context.AfterFunc(ctx, cancel)
	resp, err := w.s.send(life, request{method: http.MethodGet, query: url.Values{
		"labelSelector": {w.label}, "resourceVersion": {w.revision}, "watch": {"1"}, "allowWatchBookmarks": {"true"},
		"timeoutSeconds": {strconv.Itoa(int(patience / time.Second))},
	}})
	if !stop() && err == nil {
		resp.Body.Close()
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return &stream{resp.Body, func() { cancel(); resp.Body.Close() }, time.Now().Add(patience)}, nil
}

// run follows one stream after the other until ctx ends.
func (w *watch) run(ctx context.Context, st *stream) {
	said := false // once for each time that it is away
	for tries := 0; ; tries++ {
		if st != nil {
			stop := context.AfterFunc(ctx, st.end)
			if w.follow(st.body) {
				tries, said = 0, false
			}
			stop()
			st.end()
			if ctx.Err() == nil && time.Until(st.until) > time.Second { // not as it was to end: the server may have been away
				w.s.news.Happened()
			}
		}
		if tries > 0 && driverkit.Sleep(ctx, driverkit.Jitter(driverkit.Pause(tries-1))) != nil || ctx.Err() != nil {
			return
		}
		var err error
		if st, err = w.goOn(ctx); err != nil && ctx.Err() == nil && !said {
			said = true
			w.s.Log.Warn("kube: the listening is interrupted, trying on", "err", storekit.OneLine(w.s.explain(err)))
		}
	}
}

// goOn opens the next stream where the last one ended. If that is no more possible it says so to who listens.
func (w *watch) goOn(ctx context.Context) (*stream, error) {
	ctx, cancel := context.WithTimeout(ctx, openFor)
	defer cancel()
	known, err := w.s.known.Current()
	if err != nil {
		return nil, err
	}
	if w.revision == "" || w.memory != known {
		if err := w.locate(ctx, known); err != nil {
			return nil, err
		}
		w.tell(nil)
	}
	st, err := w.open(ctx)
	if isStatus(err, http.StatusGone) {
		w.revision = ""
	}
	return st, err
}

// event is what a stream says.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// follow hears what a stream says until it ends. It reports whether it said anything.
func (w *watch) follow(body io.Reader) (some bool) {
	bounded := &bounded{from: body}
	for d := json.NewDecoder(bounded); ; some = true {
		bounded.again()
		var e event
		if d.Decode(&e) != nil {
			return some
		}
		if err := w.take(e); err != nil {
			w.revision = ""
			w.s.Log.Debug("kube: what was told may be lost", "err", storekit.OneLine(err))
			return some
		}
	}
}

// take tells the notes of an event. An event that is no lease is an error, mostly that the server has thrown away what comes
// next (410).
func (w *watch) take(e event) error {
	var l lease
	if e.Type == "ERROR" {
		return fmt.Errorf("the watch says %.300q", e.Object)
	}
	if err := json.Unmarshal(e.Object, &l); err != nil {
		return err
	}
	if l.Metadata.ResourceVersion == "" {
		return errors.New("an event has no revision")
	}
	if e.Type == "ADDED" || e.Type == "MODIFIED" { // DELETED: its last swap tells something else, or it is gone
		texts, lost := l.notesFor(w.label)
		if lost {
			w.tell(nil)
		}
		for _, text := range texts {
			w.tell(text)
		}
	}
	w.revision = l.Metadata.ResourceVersion
	if n, err := strconv.ParseInt(w.revision, 10, 64); err == nil {
		w.memory.revision.Saw(n)
	}
	return nil
}
