package register

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/deadlines"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// vigil watches over a session of another process that somebody here waits for, or whose line he watches, and ends it when it is dead.
type vigil struct {
	clerks map[*clerk]int            // where somebody waits for it
	far    map[*atomic.Bool]struct{} // which of them know that it is not the first in line
	first  int                       // for how many it is the first in line, whomever they wait for
	stop   context.CancelFunc
}

// patience is how long a wait lasts before its vigil begins: most waits are over by then.
func (d *Driver) patience() time.Duration {
	if d.presence != nil {
		return 2 * time.Millisecond
	}
	return d.cfg.ttl / 16
}

// watchOver watches over the sessions of nodes in a line, and closely unless they are far from its head. If far is nil they are the head.
func (d *Driver) watchOver(c *clerk, nodes []driver.Node, far *atomic.Bool) (stop func()) {
	var ids []sessionID
	for _, n := range nodes {
		if id, ok := parseNodeID(n.ID); ok && d.session(id.session) == nil {
			ids = append(ids, id.session)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		v := d.vigils[id]
		if v == nil {
			v = &vigil{clerks: make(map[*clerk]int), far: make(map[*atomic.Bool]struct{})}
			var ctx context.Context
			ctx, v.stop = context.WithCancel(d.life.Context())
			d.vigils[id] = v
			d.life.Go(func() { d.keepVigil(ctx, id, v) })
		}
		v.clerks[c]++
		if far != nil {
			v.far[far] = struct{}{}
		} else {
			v.first++
		}
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, id := range ids {
			v := d.vigils[id]
			if far != nil {
				delete(v.far, far)
			} else {
				v.first--
			}
			if v.clerks[c]--; v.clerks[c] == 0 {
				delete(v.clerks, c)
			}
			if len(v.clerks) == 0 {
				v.stop()
				delete(d.vigils, id)
			}
		}
	}
}

// headWatch watches over whoever is first in line. Where those who wait rest, the next one may have died with him, and those behind
// it would notice late.
type headWatch struct {
	d    *Driver
	c    *clerk
	id   string // of his node
	stop func()
}

// is says who is first, by the ID of his node. With none, nobody is watched over any more.
func (w *headWatch) is(id string) {
	if id == w.id || !w.d.sure {
		return
	}
	if w.id != "" {
		w.stop()
	}
	if w.id = id; id != "" {
		w.stop = w.d.watchOver(w.c, []driver.Node{{ID: id}}, nil)
	}
}

// lookedAfter is for how many sessions one who watches a line looks whether they live. Where nobody waits there is only the sweeper
// to find that one has died, and he is in no hurry, or may have been the one.
const lookedAfter = 8

// lookAfter watches over some of the sessions in a line, others in each process, so that together they watch over all. It goes on
// for a while after stop, for who will watch again: a session must be seen to stand still for longer than a line may.
func (d *Driver) lookAfter(ctx context.Context, name string, nodes []driver.Node) (stop func()) {
	c, leave := d.clerk(name)
	var far atomic.Bool
	far.Store(true) // nobody waits
	end := d.watchOver(c, d.some(nodes), &far)
	return func() {
		if ctx.Err() != nil {
			end()
			leave()
			return
		}
		time.AfterFunc(d.cfg.ttl/4, func() {
			end()
			leave()
		})
	}
}

// some picks a node of each of a few sessions. It picks the same ones each time, as long as they stand.
func (d *Driver) some(nodes []driver.Node) []driver.Node {
	if len(nodes) <= lookedAfter {
		return nodes
	}
	ranks := make(map[string]uint64)
	var each []driver.Node
	of := func(n driver.Node) string {
		session, _, _ := strings.Cut(n.ID, "-")
		return session
	}
	for _, n := range nodes {
		if _, known := ranks[of(n)]; !known {
			h := fnv.New64a()
			h.Write(d.self[:])
			h.Write([]byte(of(n)))
			ranks[of(n)] = h.Sum64()
			each = append(each, n)
		}
	}
	slices.SortFunc(each, func(a, b driver.Node) int { return cmp.Compare(ranks[of(a)], ranks[of(b)]) })
	return each[:min(len(each), lookedAfter)]
}

// keepVigil waits for a session to end, and then removes its nodes where somebody waits for them, as long as somebody does.
func (d *Driver) keepVigil(ctx context.Context, id sessionID, v *vigil) {
	for tries := 0; ; tries++ {
		err := d.awaitEnd(ctx, id, v)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			d.mu.Lock()
			var clerks []*clerk
			for c := range v.clerks {
				clerks = append(clerks, c)
			}
			d.mu.Unlock()
			for _, c := range clerks {
				c.prune(map[sessionID]bool{id: true})
			}
			tries = max(tries, driverkit.Slowly) // whoever still waits for it looked before, or was late to ask
		}
		if driverkit.Sleep(ctx, driverkit.Jitter(driverkit.Pause(tries))) != nil {
			return
		}
	}
}

// awaitEnd waits until a session is over. If the session is dead, awaitEnd ends it.
func (d *Driver) awaitEnd(ctx context.Context, id sessionID, v *vigil) error {
	if d.presence != nil {
		if err := d.presence.Unkept(ctx, id.key()); err != nil {
			return err
		}
	}
	var s sighting
	for {
		sent := time.Now()
		_, asked, _ := d.uptime()
		rctx, cancel := d.requestFor(ctx)
		it, err := d.store.Read(rctx, id.key())
		cancel()
		switch {
		case err != nil:
			return d.failed(ctx, err)
		case it.Version.IsZero():
			return nil
		}
		h, ok := parseHeartbeat(it.Value)
		if !ok && d.presence == nil {
			d.cannotTell(id, unread(it.Value, format))
		}
		if s.mayCall(h, it, d.isFirst(v) || d.isNear(v), d.clock.own(sent)) {
			if err := d.call(ctx, id, it); err != nil {
				return d.failed(ctx, err)
			}
			continue
		}
		first := s.version != it.Version
		dead, again := s.see(&d.clock, it, sent, time.Now())
		if d.presence != nil || dead || first && d.suspects(ctx, id, it, asked) {
			if err := d.end(ctx, id, it.Version); err == nil || !errors.Is(err, ErrConflict) {
				return err
			}
			continue
		}
		if err := d.untilNextLook(ctx, again, &s, v); err != nil {
			return err
		}
	}
}

// untilNextLook waits until a look can tell whether a session is dead. If only looks tell when it was last renewed, whoever may be next
// looks each quarter of its TTL: a renewal that is seen late puts off its end by as much.
func (d *Driver) untilNextLook(ctx context.Context, again time.Duration, s *sighting, v *vigil) error {
	step := again
	if s.untold() || s.usual > 0 {
		step = min(cmp.Or(s.usual, s.ttl)/4, again)
	}
	for end := time.Now().Add(again); ; step = min(step, time.Until(end)) {
		if err := driverkit.Sleep(ctx, step); err != nil {
			return err
		}
		if d.isNear(v) || !time.Now().Before(end) {
			return nil
		}
	}
}

// isFirst reports whether somebody knows that a session is the first in his line.
func (d *Driver) isFirst(v *vigil) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return v.first > 0
}

// isNear reports whether somebody waits for a session who may be next.
func (d *Driver) isNear(v *vigil) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for far := range v.far {
		if !far.Load() {
			return true
		}
	}
	return false
}

// sighting is how long a session has been seen to stand still.
type sighting struct {
	version Version
	ttl     time.Duration
	usual   time.Duration // of one that rests
	still   deadlines.Standstill
	called  time.Time
}

// mayCall reports whether to call a session that rests: it is first in line or about to be, or seems late; but not again and again, nor
// if somebody else has just called it and it was renewed.
func (s *sighting) mayCall(h heartbeat, it Item, near bool, now time.Duration) bool {
	var still time.Duration
	if s.version == it.Version {
		still = now - s.still.First
	}
	again := !s.called.IsZero() && (still < h.usual || time.Since(s.called) < h.usual)
	if !h.rests() || again || !near && !h.isOverdue(it) && still < h.patience() {
		return false
	}
	s.called = time.Now()
	return true
}

// untold reports whether the store has not told when the session was renewed.
func (s *sighting) untold() bool { return !s.version.IsZero() && s.still.Since >= s.still.First }

// see takes in what a read has shown. The session is dead if it was not renewed for a TTL, and if we ourselves have seen it
// stand still for longer than a living one does. again is how long to wait until the next look can tell.
func (s *sighting) see(c *clock, it Item, sent, answered time.Time) (dead bool, again time.Duration) {
	h, ok := parseHeartbeat(it.Value)
	if !ok {
		return false, time.Minute // another layout: not ours to end
	}
	if s.version != it.Version {
		s.version, s.ttl, s.usual = it.Version, h.ttl, h.usual
		s.still = deadlines.Standstill{First: c.own(answered), Since: c.renewed(it, sent, answered, h.ttl)}
	}
	left := s.still.Left(c.own(sent), h.ttl)
	again = left
	if h.rests() { // it may seem late before that, or rest no more
		again = min(left, max(s.still.First+h.patience()-c.own(sent), h.usual))
	}
	return left == 0, max(again, time.Millisecond)
}
