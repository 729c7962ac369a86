package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// watches is a stream of events: a session has one, and the driver has one for callers who stand in no line. All who wait
// for the same key share a watch, which costs a map entry here and no goroutine. The client library's Watcher has two
// goroutines for each watch and opens watches one by one, with a round trip each: after a broken connection, it would take
// seconds until thousands of waiters listen again.
//
// The stream stays open as long as somebody listens. Every watch begins at "now", not at a revision, because etcd serves
// watches that begin in the past from a loop that runs every 100 ms. So a listener must read once the watch is open, and
// again when another stream had to be opened.
type watches struct {
	d     *service
	life  *driverkit.Life
	known string // a key to ask for when only an answer matters

	mu      sync.Mutex
	keys    map[span]*watch
	ids     map[int64]*watch // those that are open on the present stream
	pending []request        // asked for but not answered yet, in order
	queue   []*watch         // to be asked for, one by one: see numbered
	refused []*watch         // to be asked for again
	asked   int64            // the number of the last request
	runs    bool
	live    bool
	eras    int       // how often a stream has been opened or has broken
	idle    time.Time // since when nobody has listened
	unheard []unheard // watches whose last ear has gone, in that order
	spoke   time.Time // when something last arrived
	silent  string    // the member whose stream fell silent, as long as no other stream has spoken
	out     []*pb.WatchRequest
	send    driverkit.Bell // there is something in out
}

// request asks for a watch. A ping asks for one that nobody wants.
type request struct {
	number int64
	watch  *watch
	sent   time.Time
}

// firstNumber is above all numbers that a proxy may give to watches, which begin with 0.
const firstNumber = 1 << 32

// unheard is a watch whose last listener left at that time. It may have had others since.
type unheard struct {
	watch *watch
	since time.Time
}

// span is what a watch is for: one key or, with an end, a range.
type span struct{ key, end string }

type watch struct {
	span
	asked   int64 // the latest request for it; 0: none on the present stream
	id      int64 // if it is open: the service's number for it
	opened  int64 // the revision at which it was opened on the present stream; 0: it is not open
	since   time.Time
	ears    []*ear
	unheard time.Time // since when

	refusals int       // how often it has been refused since it was last open
	refused  time.Time // when it was first refused since then
	latest   time.Time // when it was last refused
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
		asked: firstNumber,
		send:  driverkit.NewBell(),
	}
}

// size returns how many watches there are.
func (ws *watches) size() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.keys)
}

// era changes whenever the service may have been stopped and put back to an earlier state: its streams do not survive that.
func (ws *watches) era() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.eras
}

// sweep closes the watches that nobody has listened to since then. Like request and post, it is called with mu held.
func (ws *watches) sweep(then time.Time) {
	n := 0
	for ; n < len(ws.unheard) && !ws.unheard[n].since.After(then); n++ {
		w := ws.unheard[n].watch
		if len(w.ears) > 0 || ws.keys[w.span] != w || w.unheard.After(then) {
			continue
		}
		delete(ws.keys, w.span)
		if len(ws.keys) == 0 {
			ws.idle = w.unheard
		}
		if w.opened > 0 {
			delete(ws.ids, w.id)
			ws.post(cancelRequest(w.id))
		}
		w.asked, w.opened = 0, 0
	}
	ws.unheard = slices.Delete(ws.unheard, 0, n)
}

// request asks for a watch on the present stream. If there is none, begin asks for the watch later.
func (ws *watches) request(w *watch) {
	switch {
	case !ws.live:
	case ws.d.numbered.Load() && len(ws.pending) > 0:
		ws.queue = append(ws.queue, w)
	default:
		ws.ask(w)
	}
}

func (ws *watches) ask(w *watch) {
	ws.asked++
	w.asked, w.opened = ws.asked, 0
	ws.pending = append(ws.pending, request{w.asked, w, time.Now()})
	create := &pb.WatchCreateRequest{Key: []byte(w.key), WatchId: w.asked}
	if w.end != "" {
		create.RangeEnd = []byte(w.end)
	}
	ws.post(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}})
}

// askNext asks for a watch that had to wait for the answer to another request.
func (ws *watches) askNext() {
	for len(ws.queue) > 0 && len(ws.pending) == 0 {
		w := ws.queue[0]
		ws.queue = ws.queue[1:]
		if ws.keys[w.span] == w && w.asked == 0 {
			ws.ask(w)
		}
	}
}

const (
	// refusalRest is how long a refused watch rests before it is asked for again.
	refusalRest = silence / 4

	// freshRefusals is how many refusals of a watch count as news. Of the watches that were refused more often, only
	// staleAtOnce at a time are asked for again, until one of them is permitted.
	freshRefusals = 3
	staleAtOnce   = 100
)

// askAgain asks once more for watches that have been refused, but for at most stale of those that are not fresh.
func (ws *watches) askAgain(stale int) {
	var later []*watch
	for _, w := range ws.refused {
		switch {
		case ws.keys[w.span] != w: // nobody listens to it any more
		case time.Since(w.latest) < refusalRest, w.refusals > freshRefusals && stale == 0:
			later = append(later, w)
		default:
			if w.refusals > freshRefusals {
				stale--
			}
			ws.request(w)
		}
	}
	ws.refused = later
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

// run keeps a stream open for as long as somebody listens.
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

// stopped reports whether nobody listens, which ends run.
func (ws *watches) stopped() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.runs = len(ws.keys) > 0
	return !ws.runs
}

// serve opens a stream, asks for every watch on it, and handles what arrives until it breaks.
func (ws *watches) serve() error {
	ctx, cancel := context.WithCancel(ws.life.Context())
	defer cancel()
	stream, err := ws.open(ctx)
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
		if ws.listenForSilence(ctx) {
			ws.fellSilent(memberOf(stream))
		}
	})
	defer ws.broken()
	for {
		said, err := stream.Recv()
		if err != nil && ctx.Err() != nil {
			return errSilent // we have hung up, which is no news
		}
		if err != nil {
			return rpctypes.Error(err)
		}
		if err := ws.heard(said); err != nil {
			return err
		}
	}
}

var errSilent = errors.New("the member has said nothing for too long")

var waitForReady = grpc.WaitForReady(true)

// elsewhere is how often a stream is opened in search of another member than the silent one: the client library hands
// the members out in turn, to all requests alike.
const elsewhere = 4

// open opens a stream, on another member than the one that fell silent if there is one: a frozen member gets its turn like
// the others until the client library gives its connection up, after 13 s.
func (ws *watches) open(ctx context.Context) (pb.Watch_WatchClient, error) {
	for n := 1; ; n++ {
		attempt, abandon := context.WithCancel(ctx)
		stream, err := ws.d.events.Watch(attempt, waitForReady)
		if err == nil && n < elsewhere && ws.isSilent(memberOf(stream)) {
			abandon()
			continue
		}
		context.AfterFunc(ctx, abandon)
		return stream, err
	}
}

// memberOf returns the address of the member at the stream's other end, and "" if it is not known.
func memberOf(stream pb.Watch_WatchClient) string {
	if p, ok := peer.FromContext(stream.Context()); ok {
		return p.Addr.String()
	}
	return ""
}

func (ws *watches) isSilent(member string) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return member != "" && member == ws.silent
}

func (ws *watches) fellSilent(member string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.silent = member
}

func (ws *watches) begin() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.live = true
	ws.eras++
	for _, w := range ws.all() {
		ws.request(w)
	}
}

// all returns the watches in an order that does not change from run to run. The caller holds mu.
func (ws *watches) all() []*watch {
	return slices.SortedFunc(maps.Values(ws.keys), func(a, b *watch) int {
		return cmp.Or(strings.Compare(a.key, b.key), strings.Compare(a.end, b.end))
	})
}

// broken forgets everything that belonged to the stream.
func (ws *watches) broken() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.live = false
	ws.eras++
	clear(ws.ids)
	ws.pending, ws.queue, ws.refused, ws.out = nil, nil, nil, nil
	ws.sweep(time.Now())
	for _, w := range ws.all() {
		w.asked, w.opened = 0, 0
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
	// silence is how long a live stream may take to answer a request; opening a watch is hardly any work for etcd.
	silence = 2 * time.Second

	// pingEvery is how often a quiet stream is made to speak, so that a dead one is noticed.
	pingEvery = 3 * time.Second

	// keepFor is how long a watch that nobody listens to stays open.
	keepFor = 500 * time.Millisecond

	// idleFor is how long a stream that nobody listens to stays open.
	idleFor = 10 * time.Second
)

// listenForSilence returns when the stream does not answer, or nobody listens to it; it tells which. A frozen member, or
// a link that swallows everything, does not break the stream; the client library notices after 10 s at best, and by
// default never.
func (ws *watches) listenForSilence(ctx context.Context) (silent bool) {
	tick := time.NewTicker(silence / 4)
	defer tick.Stop()
	pinged := time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
		ws.mu.Lock()
		ws.sweep(time.Now().Add(-keepFor))
		silent := len(ws.pending) > 0 && time.Since(ws.pending[0].sent) > silence && time.Since(ws.spoke) > silence
		idle := len(ws.keys) == 0 && time.Since(ws.idle) > idleFor
		if !silent && !idle && time.Since(pinged) > pingEvery {
			pinged = time.Now()
			ws.ping()
		}
		ws.askAgain(staleAtOnce)
		ws.mu.Unlock()
		if silent || idle {
			return silent
		}
	}
}

// ping asks for a watch that nobody wants, and that is closed again once it is open: every version of etcd answers that.
func (ws *watches) ping() {
	if len(ws.pending) == 0 {
		ws.ask(&watch{span: span{key: ws.known}})
	}
}

// heard handles one response. An error ends the stream.
func (ws *watches) heard(said *pb.WatchResponse) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.spoke, ws.silent = time.Now(), ""
	if said.GetCreated() {
		return ws.answered(said)
	}
	w := ws.ids[said.GetWatchId()]
	if w == nil {
		return nil // it has been closed meanwhile
	}
	if said.GetCanceled() {
		delete(ws.ids, w.id)
		w.asked, w.opened = 0, 0
		if time.Since(w.since) < silence {
			return fmt.Errorf("a watch was closed as soon as it was open: %q", said.GetCancelReason())
		}
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

// answered handles the answer to a request.
func (ws *watches) answered(said *pb.WatchResponse) error {
	i := slices.IndexFunc(ws.pending, func(r request) bool { return r.number == said.GetWatchId() })
	switch {
	case i < 0 && !said.GetCanceled() && !ws.d.numbered.Swap(true):
		return errNumbered
	case i < 0: // a refusal has no number, but etcd answers in order
		i = 0
	}
	if i >= len(ws.pending) {
		return nil
	}
	r := ws.pending[i]
	ws.pending = slices.Delete(ws.pending, i, i+1)
	defer ws.askNext()
	w := r.watch
	wanted := ws.keys[w.span] == w && w.asked == r.number
	if said.GetCanceled() {
		err := refusal(said.GetCancelReason())
		if !is(err, rpctypes.ErrPermissionDenied) {
			return err // the stream's token has expired: the next stream gets a new one
		}
		if wanted {
			ws.refuse(w)
		}
		return nil
	}
	if !wanted {
		ws.post(cancelRequest(said.GetWatchId()))
		return nil
	}
	w.id, w.since = said.GetWatchId(), ws.spoke
	w.opened = max(said.GetHeader().GetRevision(), 1)
	w.refusals = 0
	ws.ids[w.id] = w
	w.ring()
	ws.askAgain(len(ws.refused)) // what was refused may now be permitted again
	return nil
}

// errNumbered says that there is a proxy in between which, like etcd's own, gives its own numbers to watches and does not
// answer in order. From now on there is one request at a time.
var errNumbered = errors.New("the service numbers watches itself")

// refuse handles a watch that is not permitted. That may be temporary: listeners read, which shows whether it was, and the
// watch is asked for again.
func (ws *watches) refuse(w *watch) {
	if w.refusals == 0 {
		w.refused = time.Now()
		ws.d.log.Warn("etcd: not allowed to watch", "key", w.key)
	}
	w.refusals++
	w.asked, w.latest = 0, time.Now()
	ws.refused = append(ws.refused, w)
	w.ring()
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
