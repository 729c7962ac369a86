package etcd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// watches is a stream of events: a session has one, and the driver has one for callers who stand in no line. All who
// wait for the same key share a watch, which costs an entry in a map here and no goroutine. The client library's
// Watcher has two goroutines for each watch and opens them one by one, with a round trip each: after a broken
// connection, thousands of waiters would take seconds to listen again.
//
// The stream is there as long as somebody listens. Every watch begins at "now", not at a revision: etcd serves watches
// that begin in the past from a loop that comes round every 100 ms. So whoever listens must read once the watch is
// open, and again when another stream had to be opened.
type watches struct {
	d     *service
	life  *driverkit.Life
	known string // a key to ask for when only an answer matters

	mu      sync.Mutex
	keys    map[span]*watch
	ids     map[int64]*watch // open, or asked for, on the present stream
	pending []request        // those without an answer yet, in order
	lastID  int64
	runs    bool
	live    bool
	idle    time.Time // since when nobody has listened
	unheard []*watch  // watches whose last ear has gone, in that order
	spoke   time.Time // when something last arrived
	out     []*pb.WatchRequest
	send    driverkit.Bell // there is something in out
}

type request struct {
	id   int64
	sent time.Time
}

// span is what a watch is for: one key or, with an end, a range.
type span struct{ key, end string }

type watch struct {
	span
	id      int64
	opened  int64 // at which revision it was opened on the present stream; 0: it is not open
	ears    []*ear
	unheard time.Time // since when
	refused error
}

// event is a change of a key.
type event struct {
	rev     int64
	key     string
	deleted bool
	created int64 // of a put: the incarnation
}

func (d *service) newWatches(life *driverkit.Life, known string) *watches {
	return &watches{
		d:     d,
		life:  life,
		known: known,
		keys:  make(map[span]*watch),
		ids:   make(map[int64]*watch),
		send:  driverkit.NewBell(),
	}
}

// size is how many watches there are.
func (ws *watches) size() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.keys)
}

// sweep closes the watches that nobody has listened to since then. The caller holds mu, as it does for request and
// post.
func (ws *watches) sweep(then time.Time) {
	n := 0
	for ; n < len(ws.unheard) && !ws.unheard[n].unheard.After(then); n++ {
		w := ws.unheard[n]
		if len(w.ears) > 0 || ws.keys[w.span] != w {
			continue
		}
		delete(ws.keys, w.span)
		if len(ws.keys) == 0 {
			ws.idle = w.unheard
		}
		if ws.ids[w.id] == w {
			delete(ws.ids, w.id)
			ws.post(cancelRequest(w.id))
		}
	}
	ws.unheard = slices.Delete(ws.unheard, 0, n)
}

// request asks for a watch on the present stream. If there is none, begin asks for the watch later.
func (ws *watches) request(w *watch) {
	if !ws.live {
		return
	}
	ws.lastID++
	w.id, w.opened, w.refused = ws.lastID, 0, nil
	ws.ids[w.id] = w
	ws.pending = append(ws.pending, request{w.id, time.Now()})
	create := &pb.WatchCreateRequest{Key: []byte(w.key), WatchId: w.id}
	if w.end != "" {
		create.RangeEnd = []byte(w.end)
	}
	ws.post(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}})
}

func cancelRequest(id int64) *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: id}}}
}

func (ws *watches) post(r *pb.WatchRequest) {
	if ws.live {
		ws.out = append(ws.out, r)
		ws.send.Ring()
	}
}

// run keeps a stream open as long as somebody listens.
func (ws *watches) run() {
	for tries := 0; ; tries++ {
		begun := time.Now()
		err := ws.serve()
		if ws.life.Over() || ws.stopped() {
			return
		}
		if time.Since(begun) > driverkit.Pause(driverkit.Slowly) {
			tries = 0
		}
		ws.d.log.Info("etcd: watch stream broken, opening another", "err", err)
		if driverkit.Sleep(ws.life.Context(), driverkit.Jitter(driverkit.Pause(tries))) != nil {
			return
		}
	}
}

// stopped reports whether nobody listens, so that run ends.
func (ws *watches) stopped() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.runs = len(ws.keys) > 0
	return !ws.runs
}

// serve opens a stream, asks for every watch on it, and works on what arrives until it breaks.
func (ws *watches) serve() error {
	ctx, cancel := context.WithCancel(ws.life.Context())
	defer cancel()
	stream, err := ws.d.events.Watch(ctx, waitForReady)
	if err != nil {
		return rpctypes.Error(err)
	}
	ws.begin()
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel()
	helpers.Go(func() { ws.sender(ctx, stream) })
	helpers.Go(func() {
		defer cancel()
		ws.listenForSilence(ctx)
	})
	defer ws.broken()
	for {
		said, err := stream.Recv()
		if err != nil {
			return rpctypes.Error(err)
		}
		if err := ws.heard(said); err != nil {
			return err
		}
	}
}

var waitForReady = grpc.WaitForReady(true)

func (ws *watches) begin() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.live = true
	for _, w := range ws.keys {
		ws.request(w)
	}
}

// broken forgets what belonged to the stream.
func (ws *watches) broken() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.live = false
	clear(ws.ids)
	ws.pending, ws.out = nil, nil
	ws.sweep(time.Now())
	for _, w := range ws.keys {
		w.id, w.opened = 0, 0
		w.ring()
	}
}

func (w *watch) ring() {
	for _, e := range w.ears {
		e.bell.Ring()
	}
}

func (ws *watches) sender(ctx context.Context, stream pb.Watch_WatchClient) {
	for {
		select {
		case <-ws.send:
		case <-ctx.Done():
			return
		}
		ws.mu.Lock()
		out := ws.out
		ws.out = nil
		ws.mu.Unlock()
		for _, r := range out {
			if stream.Send(r) != nil {
				return // Recv says why
			}
		}
	}
}

const (
	// silence is how long an answer to a request may take on a living stream; opening a watch is hardly any work for etcd.
	silence = 2 * time.Second

	// pingEvery is how often a quiet stream is made to speak, so that a dead one is noticed.
	pingEvery = 3 * time.Second

	// keepFor is how long a watch that nobody listens to stays open.
	keepFor = 500 * time.Millisecond

	// idleFor is how long a stream that nobody listens to stays open.
	idleFor = 10 * time.Second
)

// listenForSilence returns when the stream does not answer, or nobody listens to it. A frozen member, or a link that
// swallows everything, breaks no stream; the client library notices after 10 s at best, and by default never.
func (ws *watches) listenForSilence(ctx context.Context) {
	tick := time.NewTicker(silence / 4)
	defer tick.Stop()
	pinged := time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		ws.mu.Lock()
		ws.sweep(time.Now().Add(-keepFor))
		silent := len(ws.pending) > 0 && time.Since(ws.pending[0].sent) > silence && time.Since(ws.spoke) > silence
		idle := len(ws.keys) == 0 && time.Since(ws.idle) > idleFor
		if !silent && !idle && time.Since(pinged) > pingEvery {
			pinged = time.Now()
			ws.ping()
		}
		ws.mu.Unlock()
		if silent || idle {
			return
		}
	}
}

// ping opens a watch and closes it again: every version of etcd answers that.
func (ws *watches) ping() {
	w := &watch{span: span{key: ws.known}}
	ws.request(w)
	delete(ws.ids, w.id)
	ws.post(cancelRequest(w.id))
}

// heard works on one response. An error ends the stream.
func (ws *watches) heard(said *pb.WatchResponse) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.spoke = time.Now()
	if said.GetCreated() {
		return ws.answered(said)
	}
	w := ws.ids[said.GetWatchId()]
	if w == nil {
		return nil // it has been closed meanwhile
	}
	if said.GetCanceled() {
		delete(ws.ids, w.id)
		ws.request(w)
		return nil
	}
	for _, e := range said.GetEvents() {
		kv := e.GetKv()
		for _, l := range w.ears {
			l.events = append(l.events, event{
				rev:     kv.GetModRevision(),
				key:     string(kv.GetKey()),
				deleted: e.GetType() == mvccpb.Event_DELETE,
				created: kv.GetCreateRevision(),
			})
		}
	}
	w.ring()
	return nil
}

// answered works on the answer to the oldest open request; etcd keeps the order.
func (ws *watches) answered(said *pb.WatchResponse) error {
	if len(ws.pending) == 0 {
		return nil
	}
	oldest := ws.pending[0]
	ws.pending = ws.pending[1:]
	w := ws.ids[oldest.id]
	if said.GetCanceled() {
		err := refusal(said.GetCancelReason())
		switch {
		case !is(err, rpctypes.ErrPermissionDenied):
			return err // the stream's token has expired: the next stream gets a new one
		case w != nil:
			delete(ws.ids, w.id)
			w.refused = failed("watch "+w.key, ws.d.explain(err))
		}
	} else if w != nil {
		w.opened = said.GetHeader().GetRevision()
	}
	if w != nil {
		w.ring()
	}
	return nil
}

// refusal returns the error that a watch's cancel reason spells out.
func refusal(reason string) error {
	for _, known := range []error{rpctypes.ErrPermissionDenied, rpctypes.ErrInvalidAuthToken} {
		if strings.Contains(reason, known.Error()) {
			return known
		}
	}
	return errors.New(reason)
}
