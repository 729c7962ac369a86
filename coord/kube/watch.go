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
	begun time.Time // the server had answered by then
	until time.Time // the server ends it then, or a little later
}

// streams are those that are open.
type streams struct {
	mu   sync.Mutex
	open map[*stream]bool
	cut  time.Time // when one ended last that was to last longer
}

func (s *streams) add(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[*stream]bool)
	}
	s.open[st] = true
}

func (s *streams) remove(st *stream, wasCut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, st)
	if wasCut {
		s.cut = time.Now()
	}
}

// unbroken returns since when one has been open all the time, and none was cut; the zero time if none is.
func (s *streams) unbroken() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first time.Time
	for st := range s.open {
		if first.IsZero() || st.begun.Before(first) {
			first = st.begun
		}
	}
	if first.IsZero() || first.After(s.cut) {
		return first
	}
	return s.cut
}

// open has the server tell what comes after the revision. ctx is for the opening alone; the stream ends with the memory.
func (w *watch) open(ctx context.Context) (*stream, error) {
	patience := watchFor + rand.N(watchFor/5) // so that not all that began together begin again together
	patience = patience.Truncate(time.Second) // the server counts seconds
	until := time.Now().Add(patience)
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
	st := &stream{resp.Body, func() { cancel(); resp.Body.Close() }, time.Now(), until}
	w.s.streams.add(st)
	return st, nil
}

// brief is a stream that was cut at once, and the next one may be, too: a proxy may do that, or a server that stops.
const brief = time.Second

// run follows one stream after the other until ctx ends.
func (w *watch) run(ctx context.Context, st *stream) {
	said := false                 // once for each time that it is away
	var retries driverkit.Retries // after brief streams
	for tries := 0; ; tries++ {
		if st != nil {
			tries = 0
			stop := context.AfterFunc(ctx, st.end)
			w.follow(st.body)
			stop()
			st.end()
			w.s.streams.remove(st, ctx.Err() == nil && time.Until(st.until) > time.Second)
			if time.Since(st.begun) >= brief {
				said, retries = false, driverkit.Retries{}
			} else if retries.Sleep(ctx, st.begun) != nil {
				return
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

// follow hears what a stream says until it ends.
func (w *watch) follow(body io.Reader) {
	bounded := &bounded{from: body}
	for d := json.NewDecoder(bounded); ; {
		bounded.again()
		var e event
		if d.Decode(&e) != nil {
			return
		}
		if err := w.take(e); err != nil {
			w.revision = ""
			w.s.Log.Debug("kube: what was told may be lost", "err", storekit.OneLine(err))
			return
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
