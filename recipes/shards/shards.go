// Package shards divides work among the processes that are there. The work has a fixed number of shards, such as the partitions of a
// queue. Every process runs a function for each shard that it owns; no shard ever has two owners, and each has one again soon
// after a process has come, left or died.
//
// It stands on a group and on a mutex for each shard: the group says who should own a shard, and the mutex that nobody else
// does. So whatever a process believes of the group, a shard's function runs in one place only, for as long as its context
// lives, and its token protects what it writes.
//
// The group of "partitions" is "partitions/members", and shard 3 is locked as "partitions/3". Leave these names to the shards; whoever
// wants to know who is there may watch the group.
package shards

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/internal/trouble"
	"github.com/turnwise/turnwise/recipes/group"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// Shards is a name, a number of shards and a client. It holds no state and does no I/O until asked.
type Shards struct {
	client *coord.Client
	name   string
	count  int
	report func(shard int, err error)
}

// Option sets up a Shards. A nil Option changes nothing.
type Option func(*Shards)

// WithReport has Run call f each time that the service refuses the lock of a shard (coord.ErrDenied), before it tries again: until it is
// given, nothing runs for this shard. f is called by one goroutine at a time, and should return soon.
func WithReport(f func(shard int, err error)) Option { return func(s *Shards) { s.report = f } }

// New returns the shards of that name, numbered from 0. All processes must say the same number.
func New(c *coord.Client, name string, count int, opts ...Option) *Shards {
	s := &Shards{client: c, name: name, count: count}
	for _, o := range opts {
		if o != nil {
			o(s)
		}
	}
	return s
}

// ErrMoved is the cause with which a shard's context ends when the shard is to be another member's.
var ErrMoved = errors.New("turnwise: the shard is another member's now")

// farewell is how long a member that leaves waits for the others to be told, before it stops the work that they take over.
const farewell = 250 * time.Millisecond

// How long a member waits before it asks again for a shard's lock that was refused: longer each time.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// Run makes the caller a member, and runs fn for each shard that it owns, each in a goroutine of its own. fn's context ends when the
// shard is another member's (the cause is ErrMoved), when its hold is lost, or when Run ends. fn must then stop: the next owner waits
// for it. If fn returns nil before that, the shard stays with this member, and nothing runs for it until it moves.
//
// When ctx ends, Run leaves the group, stops the work, waits for it and returns nil; if it was no member just then, since the service
// was out of reach, the error says so. If fn fails, Run does the same and returns the error, but not if that only says that fn's context has ended, or if
// the hold was lost: it may be in vain then, and fn is run again where it should be. If the membership is lost, all shards are, and Run
// joins again. Run also returns an error that trying again cannot mend, as election.Run does; coord.ErrInvalid says that another
// member, who came before, counts otherwise. Whoever counts otherwise owns nothing.
//
// If the lock of a shard is refused (coord.ErrDenied), as when somebody has spoilt its line, the other shards go on: see WithReport. It is
// tried again, first after a second and in the end each minute. Only if the locks of all shards that this member should own, two at
// least, are refused at the same time does Run return that error, as it does if the group is refused.
//
// A shard moves only if it has to: a member that comes takes its part from all others, and what a member leaves goes to all others.
// How many shards a member owns is left to chance, and is even for many shards.
func (s *Shards) Run(ctx context.Context, fn func(ctx context.Context, shard int, h *coord.Hold) error) error {
	if fn == nil {
		return s.invalid("the function is nil")
	}
	if s.count <= 0 {
		return s.invalid(fmt.Sprint(s.count, " shards"))
	}
	var retries driverkit.Retries
	var inTheWay error // why it could not join last, if nobody was in its way
	for ctx.Err() == nil {
		began := time.Now()
		me, err := s.group().Join(ctx, []byte(strconv.Itoa(s.count)))
		inTheWay = nil
		if err == nil {
			var failed bool
			if failed, err = s.serve(ctx, me, fn); failed {
				return err
			}
		} else {
			inTheWay = trouble.Of(ctx, err)
		}
		switch {
		case ctx.Err() != nil:
			return inTheWay
		case coord.IsLasting(err):
			return err
		}
		_ = retries.Sleep(ctx, began)
	}
	return inTheWay
}

// group is beside the shards' locks: on ZooKeeper who watches a line is told of each that is made below it, and with etcd's stock
// names those who stand below it stand in it.
func (s *Shards) group() *group.Group { return group.New(s.client, s.name+"/members") }

func (s *Shards) invalid(why string) error {
	return &coord.Error{Op: "run", Line: s.name, Err: fmt.Errorf("%w: %s", coord.ErrInvalid, why)}
}

// serve is one membership. It returns why that ended, and whether something has failed, so that there is to be no other.
func (s *Shards) serve(ctx context.Context, me *coord.Hold, fn func(context.Context, int, *coord.Hold) error) (failed bool, err error) {
	defer me.Release()
	member, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	defer context.AfterFunc(me.Context(), func() { leave(me.Err()) })()
	w := &work{s: s, ctx: context.WithoutCancel(ctx), fn: fn, leave: leave,
		owned: make(map[int]context.CancelCauseFunc), denied: make(map[int]bool)}
	for view, err := range s.group().Watch(member) {
		switch {
		case err != nil:
			if coord.IsLasting(err) {
				leave(err)
			}
			continue // what is owned is sure without the group
		case !view.Has(me): // our hold will soon hear of it
			continue
		}
		if other, differs := s.differs(view, me); differs {
			w.fail(s.invalid(fmt.Sprintf("a member who came before says %q, and this one counts %d", other, s.count)))
			break
		}
		w.divide(view, me)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = me.Release()
	}()
	select {
	case <-gone:
	case <-time.After(farewell):
	}
	w.end(context.Cause(member))
	<-gone
	if w.failure != nil {
		return true, w.failure
	}
	return false, context.Cause(member)
}

// agrees reports whether a member counts as we do.
func (s *Shards) agrees(m coord.Node) bool { return string(m.Data) == strconv.Itoa(s.count) }

// differs returns what a member says who came before me and counts otherwise.
func (s *Shards) differs(v group.View, me *coord.Hold) (says string, differs bool) {
	for _, m := range v.Members {
		if m.Token == me.Token() {
			break
		}
		if !s.agrees(m) {
			return string(m.Data[:min(len(m.Data), 20)]), true
		}
	}
	return "", false
}

// work is what one membership owns.
type work struct {
	s     *Shards
	ctx   context.Context // with the caller's values
	fn    func(context.Context, int, *coord.Hold) error
	leave context.CancelCauseFunc

	mu      sync.Mutex
	owned   map[int]context.CancelCauseFunc // shards, and what ends each
	denied  map[int]bool                    // those of them whose locks were refused when last asked for
	running sync.WaitGroup

	reporting sync.Mutex

	once    sync.Once
	failure error // what failed first; read when nothing runs any more
}

func (w *work) fail(err error) {
	w.once.Do(func() { w.failure = err })
	w.leave(err)
}

// divide begins and ends work as a view of the group says.
func (w *work) divide(v group.View, me *coord.Hold) {
	var tokens []coord.Token
	for _, m := range v.Members {
		if w.s.agrees(m) {
			tokens = append(tokens, m.Token)
		}
	}
	w.mu.Lock() // until all are there: the first one that is refused is not all of them
	defer w.mu.Unlock()
	for shard := range w.s.count {
		end, owned := w.owned[shard]
		switch mine := owner(tokens, shard) == me.Token(); {
		case mine && !owned:
			ctx, end := context.WithCancelCause(w.ctx)
			w.owned[shard] = end
			w.running.Go(func() { w.own(ctx, shard) })
		case owned && !mine:
			end(ErrMoved)
			delete(w.owned, shard)
			delete(w.denied, shard)
		}
	}
}

// end ends all work, and waits for it.
func (w *work) end(why error) {
	for _, end := range w.owned { // only divide changes them, and is not called any more
		end(why)
	}
	w.running.Wait()
}

// own waits until nobody else owns a shard, and works on it, until ctx ends.
func (w *work) own(ctx context.Context, shard int) {
	m := mutex.New(w.s.client, w.s.name+"/"+strconv.Itoa(shard))
	var retries driverkit.Retries
	pause := time.Duration(0)
	for ctx.Err() == nil {
		began := time.Now()
		w.asks(shard)
		h, err := m.Lock(ctx)
		switch {
		case err == nil:
			pause = 0
			if done := w.runs(ctx, shard, h); done {
				<-ctx.Done()
				return
			}
		case ctx.Err() != nil:
		case errors.Is(err, coord.ErrDenied) && !w.refused(ctx, shard, err):
			pause = min(max(2*pause, firstPause), lastPause)
			_ = driverkit.Sleep(ctx, driverkit.Jitter(pause))
			continue
		case coord.IsLasting(err):
			w.fail(err)
			return
		}
		_ = retries.Sleep(ctx, began)
	}
}

// asks notes that a shard's lock is asked for: it may not be refused any more.
func (w *work) asks(shard int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.denied, shard)
}

// refused notes that a shard's lock was, and reports it, unless all that are to be owned are refused by now: then somebody has to hear of
// it who can give the right. One shard alone, of several, is not all: whoever can write its line would end one member after the other.
func (w *work) refused(ctx context.Context, shard int, err error) (all bool) {
	w.mu.Lock()
	if ctx.Err() == nil {
		w.denied[shard] = true
		all = len(w.denied) == len(w.owned) && (len(w.owned) > 1 || w.s.count == 1)
	}
	w.mu.Unlock()
	if w.s.report != nil && !all {
		w.reporting.Lock()
		defer w.reporting.Unlock()
		w.s.report(shard, err)
	}
	return all
}

// runs works on a shard under a hold. It reports whether the work was done before the shard moved, or the hold was lost.
func (w *work) runs(ctx context.Context, shard int, h *coord.Hold) (done bool) {
	defer h.Release() // even if fn panics
	working, cancel := h.With(ctx)
	defer cancel()
	returned := false
	defer func() {
		if !returned { // runtime.Goexit, as t.FailNow calls it
			w.fail(w.s.invalid(fmt.Sprintf("the function has ended its goroutine, for shard %d", shard)))
		}
	}()
	err := w.fn(working, shard, h)
	returned = true
	ended := working.Err() != nil
	says := ended && (errors.Is(err, working.Err()) || errors.Is(err, context.Cause(working)))
	if err != nil && !says && h.Err() == nil {
		w.fail(err)
	}
	return h.Release() == nil && !ended
}

// owner returns whose a shard is: each member is given a weight for it, and the greatest wins. So a member that comes or goes moves no
// shard between two others.
func owner(members []coord.Token, shard int) (best coord.Token) {
	most := uint64(0)
	for _, m := range members {
		if weight := mix(mix(uint64(m)) ^ uint64(shard)); best == 0 || weight > most || weight == most && m < best {
			best, most = m, weight
		}
	}
	return best
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
