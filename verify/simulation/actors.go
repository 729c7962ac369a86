package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/group"
	"github.com/turnwise/turnwise/recipes/multi"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/recipes/semaphore"
)

// Recipes are those that can be simulated.
var Recipes = []string{"mutex", "rwlock", "semaphore", "election", "several", "together", "once", "group", "barrier", "ranked"}

// window is how long those who take turns together may step into a node.
const window = 100 * time.Millisecond

// contender is one goroutine that wants something, again and again.
type contender struct {
	*world
	name   string
	client *client
	line   string
	rand   *rand.Rand
	late   func() // a write that it has not sent yet
}

// approach is one way of asking for a turn.
type approach struct {
	acquire func(ctx context.Context) (*coord.Hold, error)
	try     bool
	inside  func(ctx context.Context, h *coord.Hold) // what to do while it holds; may be nil
}

func (c *contender) run(ctx context.Context) {
	for range c.cfg.Rounds {
		c.pause(ctx, 20*time.Millisecond)
		if c.servers.Slow && c.rand.IntN(3) == 0 { // the session idles
			c.pause(ctx, c.cfg.TTL)
		}
		if ctx.Err() != nil {
			return
		}
		switch {
		case c.cfg.Recipe == "several" && c.rand.IntN(3) > 0:
			c.takesSeveral(ctx)
		case c.cfg.Recipe == "once" && c.rand.IntN(4) > 0:
			c.runsSlots(ctx)
		case c.cfg.Recipe == "barrier" && c.rand.IntN(6) > 0:
			c.meets(ctx)
		default:
			c.once(ctx)
		}
	}
}

// asking returns the context of a call, and when it ends by itself, if it does.
func (c *contender) asking(ctx context.Context) (asking context.Context, cancel context.CancelFunc, limit time.Time) {
	if c.rand.IntN(4) > 0 {
		return ctx, func() {}, time.Time{}
	}
	limit = time.Now().Add(time.Duration(c.rand.Int64N(int64(c.cfg.TTL / 4)))) // it will not wait forever
	asking, cancel = context.WithDeadline(ctx, limit)
	return asking, cancel, limit
}

func (c *contender) once(ctx context.Context) {
	w := c.chooses()
	asking, cancel, limit := c.asking(ctx)
	defer cancel()
	asked, heard := time.Now(), c.scheduler.heard(c.client.name)
	h, err := w.acquire(asking)
	if err != nil {
		if w.try && errors.Is(err, coord.ErrBusy) && c.cfg.Recipe != "together" { // a node of its own is in its way
			c.refused(c.client, c.name, c.line, asked, heard)
		}
		c.failed(ctx, asking, limit, w.try, err)
		return
	}
	if w.try && c.cfg.Recipe != "together" {
		c.mu.Lock()
		if c.waited[placeOf(h.Node())] {
			c.report("%s: a try stood in line", c.name)
		}
		c.mu.Unlock()
	}
	c.holds(ctx, h, w.inside)
}

// failed judges a call that did not get what it asked for.
func (c *contender) failed(ctx, asking context.Context, limit time.Time, try bool, err error) {
	if !limit.IsZero() && asking.Err() != nil {
		if c.cfg.Recipe == "ranked" { // it may have had to release
			limit = limit.Add(c.client.driver.RequestTimeout())
		}
		c.inTime(c.name, "acquire", limit)
	} else if ctx.Err() == nil {
		c.mayFail(try, err)
	}
}

// takesSeveral takes two lines at once, to read or to write.
func (c *contender) takesSeveral(ctx context.Context) {
	asking, cancel, limit := c.asking(ctx)
	defer cancel()
	var locks []multi.Option
	for _, line := range c.lines {
		if c.rand.IntN(3) == 0 {
			locks = append(locks, multi.Read(line))
		} else {
			locks = append(locks, multi.Write(line))
		}
	}
	m := multi.New(c.client.Client, locks...)
	take, try := m.Lock, c.rand.IntN(5) == 0
	if try {
		take = m.TryLock
	}
	h, err := take(asking)
	if err != nil {
		c.failed(ctx, asking, limit, try, err)
		return
	}
	var mine []*claim
	for _, line := range c.lines {
		mine = append(mine, c.granted(c.name, line, h.Hold(line)))
	}
	c.pause(h.Context(), 100*time.Millisecond)
	began, held := time.Now(), h.Err() == nil
	for _, one := range mine {
		c.released(one)
	}
	if err := h.Release(); held && err != nil && time.Since(began) == 0 {
		c.mu.Lock()
		c.report("%s: Release says %v of what was held", c.name, err)
		c.mu.Unlock()
	}
	c.inTime(c.name, "release", began.Add(c.client.driver.RequestTimeout()))
}

// mayFail reports an error of acquire that nothing explains.
func (c *contender) mayFail(try bool, err error) {
	switch {
	case errors.Is(err, coord.ErrClosed), errors.Is(err, coord.ErrRemoved):
	case try && (errors.Is(err, coord.ErrBusy) || errors.Is(err, coord.ErrUnavailable)):
	case errors.Is(err, coord.ErrDenied) && c.lacksRights():
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.report("%s: acquire failed with %v", c.name, err)
	}
}

// lacksRights reports whether rights are away, or were a moment ago.
func (w *world) lacksRights() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.denied.IsZero() && time.Since(w.denied) < 2*w.cfg.TTL
}

// holds works under a hold for a while, does what is to be done inside, and releases the hold.
func (c *contender) holds(ctx context.Context, h *coord.Hold, inside func(ctx context.Context, h *coord.Hold)) {
	mine := c.granted(c.name, c.line, h)
	if c.late != nil { // in the name of an earlier hold
		c.late()
	}
	if c.cfg.Recipe == "together" && c.rand.IntN(4) > 0 {
		c.late = nil // a hold with a guard is the last of its node
	} else if write := c.guarded(c.client.name, c.line, h); write != nil && c.rand.IntN(2) == 0 {
		write()
		c.late = nil
	} else {
		c.late = write
	}
	work := 100 * time.Millisecond
	if n := c.rand.IntN(12); n == 0 || n < 4 && c.servers.Slow {
		work = 2 * c.cfg.TTL
	}
	c.pause(h.Context(), work)
	if inside != nil {
		c.mu.Lock()
		mine.amended = true
		c.mu.Unlock()
		inside(ctx, h)
	}
	held := h.Err() == nil
	began := time.Now()
	c.released(mine) // from here on it claims nothing
	if err := h.Release(); held && err != nil && time.Since(began) == 0 {
		c.mu.Lock()
		if c.taken[mine.place()].IsZero() { // else it may have been taken away just then
			c.report("%s: Release says %v of a hold that was held", c.name, err)
		}
		c.mu.Unlock()
	}
	c.inTime(c.name, "release", began.Add(c.client.driver.RequestTimeout()))
}

// pause takes part of d, in odd nanoseconds, so that no two timers fire together.
func (c *contender) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(time.Duration(c.rand.Int64N(int64(d))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (c *contender) chooses() approach {
	try := c.rand.IntN(5) == 0
	pick := func(lock, tryLock func(context.Context) (*coord.Hold, error)) approach {
		if try {
			return approach{acquire: tryLock, try: true}
		}
		return approach{acquire: lock}
	}
	switch c.cfg.Recipe {
	case "mutex", "once":
		m := mutex.New(c.client.Client, c.line)
		return pick(m.Lock, m.TryLock)
	case "together":
		within := window / time.Duration(1+c.rand.IntN(2))
		if c.rand.IntN(4) == 0 {
			within = 0
		}
		if c.cfg.Seed%3 == 0 {
			l := rwlock.New(c.client.Client, c.line, rwlock.Together(within))
			if c.rand.IntN(5) < 4 {
				return pick(l.RLock, l.TryRLock)
			}
			return pick(l.Lock, l.TryLock)
		}
		m := mutex.New(c.client.Client, c.line, mutex.Together(within))
		return pick(m.Lock, m.TryLock)
	case "rwlock", "several":
		l := rwlock.New(c.client.Client, c.line)
		if c.rand.IntN(5) < 3 {
			return pick(l.RLock, l.TryRLock)
		}
		w := pick(l.Lock, l.TryLock)
		if c.rand.IntN(3) == 0 {
			w.inside = func(ctx context.Context, h *coord.Hold) { c.downgrade(ctx, l, h) }
		}
		return w
	case "barrier":
		l := rwlock.New(c.client.Client, c.line)
		return pick(l.Lock, l.TryLock)
	case "group":
		if l := rwlock.New(c.client.Client, c.line); c.rand.IntN(5) == 0 {
			return pick(l.Lock, l.TryLock)
		}
		return c.joins()
	case "semaphore":
		permits, n := 2+c.rand.Int64N(2), 1+c.rand.Int64N(2)
		if c.cfg.Seed%2 == 0 { // many permits follow a rule of their own
			permits, n = 9+c.rand.Int64N(2), 4+c.rand.Int64N(2)
		}
		s := semaphore.New(c.client.Client, c.line, permits)
		return pick(func(ctx context.Context) (*coord.Hold, error) { return s.Acquire(ctx, n) },
			func(ctx context.Context) (*coord.Hold, error) { return s.TryAcquire(ctx, n) })
	default:
		return c.campaigns()
	}
}

// campaigns stands for election, with a rank or without.
func (c *contender) campaigns() approach {
	var opts []election.Option
	ranked := c.cfg.Recipe == "ranked" && c.rand.IntN(6) > 0
	if ranked {
		opts = append(opts, election.Rank(c.rand.IntN(4)-1))
	}
	e := election.New(c.client.Client, c.line, opts...)
	var term *election.Term
	return approach{
		acquire: func(ctx context.Context) (_ *coord.Hold, err error) {
			if term, err = e.Campaign(ctx, []byte(c.name)); err != nil {
				return nil, err
			}
			return term.Hold, nil
		},
		inside: func(ctx context.Context, h *coord.Hold) {
			switch c.rand.IntN(3) {
			case 0:
				_ = term.Proclaim(ctx, fmt.Appendf(nil, "%s again", c.name))
				c.pause(h.Context(), 50*time.Millisecond)
			case 1:
				if ranked {
					c.looksForBetter(h.Context(), term)
				}
			}
		},
	}
}

// looksForBetter leads until a better candidate stands, or it is tired of that.
func (c *contender) looksForBetter(ctx context.Context, term *election.Term) {
	watching, cancel := context.WithTimeout(ctx, time.Duration(c.rand.Int64N(int64(c.cfg.TTL))))
	defer cancel()
	better, err := term.Better(watching)
	mine := term.Node().Rank
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && better.Rank <= mine {
		c.report("%s: a candidate of rank %d is said to be better than one of rank %d", c.name, better.Rank, mine)
	}
}

func (c *contender) joins() approach {
	g := group.New(c.client.Client, c.line)
	return approach{
		acquire: func(ctx context.Context) (*coord.Hold, error) { return g.Join(ctx, []byte(c.name)) },
		inside:  func(ctx context.Context, h *coord.Hold) { c.looksAround(ctx, g, h) },
	}
}

// looksAround has a member say something new, perhaps, and look who is there: a member finds itself.
func (c *contender) looksAround(ctx context.Context, g *group.Group, h *coord.Hold) {
	if c.rand.IntN(3) == 0 {
		_ = g.Update(ctx, h, fmt.Appendf(nil, "%s again", c.name))
	}
	members, err := g.Members(h.Context())
	if err != nil || slices.ContainsFunc(members, func(n coord.Node) bool { return n.Token == h.Token() }) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := !c.taken[turn{c.line, ofNode(h.Token())}].IsZero() || !c.service.Taken(h.Node().ID).IsZero()
	if h.Err() == nil && !taken && !c.restored {
		c.report("%s: a member with token %d does not find itself among %d", c.name, h.Token(), len(members))
	}
}

// downgrade goes on for a while as whatever the hold says that it is, even if no answer came in time. A hold nested in it
// may go on only as the kind that was asked for.
func (c *contender) downgrade(ctx context.Context, l *rwlock.RWLock, h *coord.Hold) {
	asking, cancel := ctx, context.CancelFunc(func() {})
	if c.rand.IntN(2) == 0 {
		asking, cancel = context.WithTimeout(ctx, time.Duration(c.rand.Int64N(int64(20*time.Millisecond))))
	}
	defer cancel()
	nested, err := rwlock.New(c.client.Client, c.line, rwlock.Reentrant()).Lock(h.Context())
	if err == nil {
		inner := c.nested(c.name, c.line, nested)
		defer c.released(inner)
		defer nested.Release()
	}
	before := c.amendments(h)
	err = l.Downgrade(asking, h)
	c.judgeDowngrade(h, err, c.amendments(h)-before, asking.Err() != nil)
	c.pause(h.Context(), 50*time.Millisecond)
}

// judgeDowngrade is told how often a downgrade was sent, if that is known, and whether it ran out of time. One that was refused
// has changed nothing, unless an earlier try may yet be applied.
func (c *contender) judgeDowngrade(h *coord.Hold, err error, sent int, late bool) {
	refused := errors.Is(err, coord.ErrDenied) && c.lacksRights()
	unsettled := errors.Is(err, coord.ErrUnsettled)
	kind, alive := h.Node().Kind, h.Err() == nil
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil && kind != "R":
		c.report("%s: downgraded, and yet of kind %s", c.name, kind)
	case err != nil && alive && !late && !refused:
		c.report("%s: downgrade of a live hold: %v", c.name, err)
	case alive && !late && refused && (unsettled != (kind == "R") || unsettled && sent == 1):
		c.report("%s: a downgrade sent %d times was refused, and it is held as %s: %v", c.name, sent, kind, err)
	}
}

// amendments returns how often amendments of a hold's node were sent on etcd, and 0 on other services.
func (c *contender) amendments(h *coord.Hold) int {
	if c.cfg.Profile != Etcd {
		return 0
	}
	key, _, _ := strings.Cut(h.Node().ID, "@")
	return c.scheduler.sent(c.client.name, "amend "+bareKey([]byte(key)))
}
