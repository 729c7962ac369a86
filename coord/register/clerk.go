package register

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// clerk keeps what this process knows of a line, and makes all its changes to it: one request at a time, and all wishes in
// one swap.
//
// It does not back off after a conflict. Each conflict is somebody's progress, every process has one swap under way, and
// those in line get their turns in order; a process that paused a little after each loss might wait for ever. A process far
// from the store may lose each time against those near it. So after a few losses it has the next swap reserved.
type clerk struct {
	d    *Driver
	name string
	key  string

	mu      sync.Mutex
	known   *known // nil: nothing is known
	old     bool   // the line has changed since: a swap would meet a conflict
	wishes  []*wish
	working bool
	wanted  uint64 // how many wishes there have been
	seen    uint64 // the highest seq of the line
	inUse   int    // how many places and watchers there are

	back time.Time // until then nobody of ours joins: see wentBack

	stood time.Time // when the line was last seen with somebody in it; zero: it was empty since

	// doubt is the version that a swap whose outcome is open was to replace. While it stands, that swap may still come.
	doubt *Version
}

// known is a line as it stood when, or after, so many wishes had been made.
type known struct {
	version Version
	line    *line // nil: the register is empty
	wanted  uint64
}

// fresh reports whether what is known is no older than a wish. It counts wishes, since clocks are too coarse to tell.
func (k *known) fresh(w *wish) bool { return k.wanted >= w.number }

// lossesInARow is how many conflicts a clerk bears before it has the next swap reserved. Reserving after the first would
// halve what all of them together get done.
const lossesInARow = 4

// want adds a wish.
func (c *clerk) want(w *wish) *wish {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted++
	w.number = c.wanted
	c.wishes = append(c.wishes, w)
	if !c.working {
		if c.working = c.d.life.Go(c.work); !c.working {
			c.wishes = nil
			w.decide(errClosed)
		}
	}
	return w
}

// giveUp says that nobody waits for a wish any more. It reports whether the wish may have been carried out, or may be yet.
func (c *clerk) giveUp(w *wish) (maybe bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.givenUp = true
	return w.underWay || w.open
}

// await waits until a wish is decided. It gives the wish up if that is refused for now, or if ctx or its session ends first.
func (c *clerk) await(ctx context.Context, w *wish) (err error) {
	var over <-chan struct{} // never, if it is nobody's
	if w.of != nil {
		over = w.of.life.Done()
	}
	select {
	case <-w.done:
		return w.err
	case err = <-w.said:
	case <-ctx.Done():
		err = ctx.Err()
	case <-over:
		err = w.of.life.Why()
	}
	c.giveUp(w)
	if w.of != nil {
		err = w.of.life.Verdict(err)
	}
	return err
}

// work goes on until there are no wishes left.
func (c *clerk) work() {
	var failures, losses int
	var trip time.Duration
	for {
		batch, k := c.take()
		if len(batch) == 0 {
			return
		}
		if k == nil || slices.ContainsFunc(batch, func(w *wish) bool { return w.mustLook && !k.fresh(w) }) {
			var err error
			if k, err = c.look(); err != nil {
				failures++
				c.trouble(batch, err, failures)
				continue
			}
		}
		doubt := c.inDoubt(k)
		var epoch uint64 // read each time: since an earlier read the line may have been there and gone
		if k.line == nil && (doubt || slices.ContainsFunc(batch, func(w *wish) bool { return w.creates })) {
			var err error
			if epoch, err = c.d.epoch(); err != nil {
				failures++
				c.trouble(batch, err, failures)
				continue
			}
		}
		d, now, refused := c.draft(k, batch, epoch)
		if !d.changed && !doubt {
			failures = 0
			c.finish(now, refused)
			continue
		}
		var reserve time.Duration
		if losses >= lossesInARow {
			reserve = min(max(3*trip, time.Millisecond), 100*time.Millisecond)
		}
		if !c.depart(now) {
			continue
		}
		sent := time.Now()
		err := c.swap(k, d, now, reserve)
		switch trip = time.Since(sent); {
		case err == nil:
			failures, losses = 0, 0
			c.finish(now, refused)
		case errors.Is(err, ErrConflict):
			failures = 0
			losses++
			c.giveWay(k, trip)
		default:
			failures++
			c.trouble(batch, err, failures)
		}
	}
}

// depart notes that a swap is about to be sent. It reports false if one of the wishes in it was given up meanwhile.
func (c *clerk) depart(batch []*wish) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(batch, func(w *wish) bool { return w.givenUp && !w.underWay }) {
		return false
	}
	for _, w := range batch {
		w.underWay = true
	}
	return true
}

// giveWay waits a little if a swap met a conflict with what is known: somebody else has the next one reserved.
func (c *clerk) giveWay(k *known, trip time.Duration) {
	c.mu.Lock()
	reserved := c.known != nil && c.known.version == k.version
	c.mu.Unlock()
	if reserved {
		_ = driverkit.Sleep(c.d.life.Context(), driverkit.Jitter(max(trip, time.Millisecond)))
	}
}

// take returns the wishes to try next, and what is known of the line unless that is old. If there are no wishes the work is over.
func (c *clerk) take() ([]*wish, *known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wishes = slices.DeleteFunc(c.wishes, func(w *wish) bool {
		switch {
		case c.d.life.Over():
			w.decide(errClosed)
		case w.of != nil && w.of.life.Over():
			w.decide(w.of.life.Why())
		case w.givenUp:
			w.decide(context.Canceled)
		case w.creates && w.of != nil && time.Until(c.back) > 0:
			w.decide(errWentBack)
		default:
			return false
		}
		return true
	})
	if len(c.wishes) == 0 {
		c.working = false
	}
	if c.old {
		return slices.Clone(c.wishes), nil
	}
	return slices.Clone(c.wishes), c.known
}

// draft tries all wishes. now are the wishes that it decides, and refused are the errors for those of them that are not
// done. The others must wait for a look.
func (c *clerk) draft(k *known, batch []*wish, epoch uint64) (d *draft, now []*wish, refused map[*wish]error) {
	d = newDraft(k.line)
	if k.line == nil {
		d.next, d.seq = firstToken(epoch), firstSeq(epoch)
	}
	d.from = d.next
	for _, w := range batch {
		var err error
		if w.of != nil && w.of.life.Over() { // since the batch was taken: what it puts into the line nobody would take away
			err = w.of.life.Why()
		} else {
			err = w.do(d, try{fresh: k.fresh(w), again: w.open})
		}
		if w.mustLook = err == errLook; w.mustLook {
			continue
		}
		now = append(now, w)
		if err != nil {
			if refused == nil {
				refused = make(map[*wish]error)
			}
			refused[w] = err
		}
	}
	return d, now, refused
}

// changed is called when a line is known to have had that seq. Whose turn has come knows the line only as it was when he
// joined. To read it before he leaves costs less than a swap in vain.
func (c *clerk) changed(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.old = c.old || c.known != nil && c.known.line != nil && c.known.line.seq < seq
}

// inDoubt reports whether an earlier swap may yet replace what is known. Whatever is written next, even the same value
// again, makes sure that it does not.
func (c *clerk) inDoubt(k *known) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doubt != nil && *c.doubt == k.version
}

// look reads the line.
func (c *clerk) look() (*known, error) {
	now := c.before()
	ctx, cancel := c.d.request()
	defer cancel()
	it, err := c.d.store.Read(ctx, c.key)
	if err != nil {
		return nil, err
	}
	return c.learn(it, now)
}

// moment is how things stood when a request was sent.
type moment struct{ wanted, seen uint64 }

func (c *clerk) before() moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	return moment{c.wanted, c.seen}
}

// learn takes in what a read or a conflict has shown; asked is the moment when the request was sent.
func (c *clerk) learn(it Item, asked moment) (*known, error) {
	k := &known{version: it.Version, wanted: asked.wanted}
	if it.Version.IsZero() {
		if c.isMissed() {
			c.wentBack(asked.seen, 0)
		}
	} else {
		l, err := readLine(it.Value)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", c.name, err)
		}
		if k.line = l; l.seq < asked.seen {
			c.wentBack(asked.seen, l.seq)
		}
	}
	c.set(k)
	return k, nil
}

// isMissed reports whether a line that is not there should be: it stays for long after the last has left it.
func (c *clerk) isMissed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.stood.IsZero() && time.Since(c.stood) < lateAtMost
}

// set takes in what the line is now.
func (c *clerk) set(k *known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.old = k, false
	if c.doubt != nil && *c.doubt != k.version {
		c.doubt = nil
	}
	c.stood = time.Time{}
	if k.line != nil {
		c.seen = max(c.seen, k.line.seq)
		if k.line.count > 0 {
			c.stood = time.Now()
		}
	}
}

// swap writes a draft, and tells those whom it concerns.
func (c *clerk) swap(k *known, d *draft, batch []*wish, reserve time.Duration) error {
	d.seq++
	s := Swap{Key: c.key, Old: k.version, By: c.d.self, Reserve: reserve}
	next := &known{}
	if !d.deleted || d.count > 0 {
		s.Next = NewVersion()
		s.Value = d.encode()
		next.version, next.line = s.Next, &d.line
		s.Whose = d.whose()
	}
	if len(s.Value) > maxLine { // nobody would read it
		return c.refuse(batch, ErrTooLarge)
	}
	told := d.news()
	s.Notes = c.notes(d, told)
	now := c.before()
	next.wanted = now.wanted
	ctx, cancel := c.d.request()
	defer cancel()
	cur, err := c.d.store.Swap(ctx, s)
	switch {
	case err == nil:
		c.set(next)
		for to, all := range told {
			if s := c.d.session(to.id); s != nil {
				s.heed(c.name, d.seq, all)
			}
		}
	case errors.Is(err, ErrConflict):
		there, wrong := c.learn(cur, now)
		if wrong != nil {
			return wrong
		}
		if c.wasApplied(d, there) {
			c.unsure(batch, told)
		}
	case errors.Is(err, ErrTooLarge):
		return c.refuse(batch, err)
	default:
		c.mu.Lock()
		c.known, c.doubt = nil, &s.Old
		c.mu.Unlock()
		c.unsure(batch, told)
	}
	return err
}

// unsure is called after a swap that was applied, or may have been, or may be yet, without an answer that says so.
func (c *clerk) unsure(batch []*wish, told map[recipient][]notice) {
	c.mu.Lock()
	for _, w := range batch {
		w.open = true
	}
	c.mu.Unlock()
	for to, all := range told { // those elsewhere are told by the store
		if s := c.d.session(to.id); s != nil {
			s.doubt(all)
		}
	}
}

// wasApplied reports whether a swap was applied although it met a conflict: it was repeated on its way, and somebody else's
// swap came in between. Then one of our nodes has a token that the draft gave.
func (c *clerk) wasApplied(d *draft, there *known) bool {
	if there.line == nil || d.from == d.next {
		return false
	}
	for n := range there.line.nodes() {
		if n.token >= d.from && n.token < d.next && c.d.session(there.line.members[n.member].id) != nil {
			return true
		}
	}
	return false
}

// notes returns the notes for those in other processes.
func (c *clerk) notes(d *draft, told map[recipient][]notice) (all []Note) {
	if c.d.mute.Load() {
		return nil
	}
	for to, notices := range told {
		if c.d.session(to.id) == nil {
			all = append(all, c.d.notes(to, c.name, d.seq, notices)...)
		}
	}
	if d.watched&firstWatched != 0 && d.firstChanged() {
		all = append(all, Note{Topic: firstTopic + c.name, Text: []byte{1}})
	}
	if d.watched&allWatched != 0 && (d.next > d.from || len(d.gone) > 0) {
		all = append(all, Note{Topic: allTopic + c.name, Text: []byte{1}})
	}
	return all
}

// refuse ends the wishes for which there is no room: those of newcomers or, if there are none, those that say more than
// before. The others go on without them. It returns what those are told.
func (c *clerk) refuse(batch []*wish, err error) error {
	err = fmt.Errorf("line %q is full: %w", c.name, err)
	newcomers := slices.ContainsFunc(batch, func(w *wish) bool { return w.creates })
	for _, w := range batch {
		if w.creates || w.grows && !newcomers {
			c.finish([]*wish{w}, map[*wish]error{w: err})
		}
	}
	return err
}

// finish decides wishes.
func (c *clerk) finish(batch []*wish, refused map[*wish]error) {
	c.mu.Lock()
	for _, w := range batch {
		w.decided = true
	}
	c.wishes = slices.DeleteFunc(c.wishes, func(w *wish) bool { return w.decided })
	c.mu.Unlock()
	for _, w := range batch {
		w.decide(refused[w])
	}
}

// trouble waits a little before the next try. Those who wait are told of a refusal; their wishes are tried again all the
// same.
func (c *clerk) trouble(batch []*wish, err error, failures int) {
	if errors.Is(err, ErrForgot) {
		c.d.forgot(err)
	}
	if denied := driver.IsLasting(err); denied {
		failures = max(failures, driverkit.Slowly)
		for _, w := range batch {
			w.say(err)
		}
	}
	c.d.saw(err)
	driverkit.Sleep(c.d.life.Context(), driverkit.Jitter(driverkit.Pause(failures-1)))
}

// prune removes the nodes of sessions that are over. What is known of those is not kept for other lines: who may write to one
// could have stood there, in it, a session that was about to be opened.
func (c *clerk) prune(over map[sessionID]bool) *wish {
	return c.want(newWish(nil, func(d *draft, t try) error {
		if !d.remove(math.MaxInt, died, func(n node) bool { return over[d.members[n.member].id] }) && !t.fresh {
			return errLook
		}
		return nil
	}))
}
