package register

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// Driver carries turnwise's recipes on a Store.
type Driver struct {
	store   Store
	keeper  Keeper // nil if the store is none
	cfg     config
	self    Version // By in all its swaps
	timeout time.Duration
	life    *driverkit.Life
	mute    atomic.Bool // the store does not tell of swaps

	mu       sync.Mutex
	clerks   map[string]*clerk
	sessions map[sessionID]*session
	vigils   map[sessionID]*vigil
	dead     map[sessionID]time.Time // sessions that were found to be gone, and when
	asked    map[sessionID]time.Time // sessions that stood in the way of a try, and when they were asked for
	memory   string                  // the ID of the store's memory; "" before it was asked
	forgotAt time.Time               // when the store was last found to have forgotten
	lapses   int                     // how often that was
	said     time.Time               // when trouble was logged last

	sweeper sweeper
}

var (
	errClosed = errors.New("register: the driver is closed")

	_ driver.Driver = (*Driver)(nil)
)

// Store returns the store that the driver was made for.
func (d *Driver) Store() Store { return d.store }

// New returns a driver for a store. It does no I/O. Closing the driver closes the store.
func New(store Store, opts ...Option) *Driver {
	cfg := config{ttl: DefaultTTL, log: slog.New(slog.DiscardHandler)}
	for _, o := range opts {
		if o != nil {
			o(&cfg)
		}
	}
	d := &Driver{
		store:    store,
		cfg:      cfg,
		self:     NewVersion(),
		timeout:  min(max(cfg.ttl/4, 400*time.Millisecond), 2*time.Second),
		life:     driverkit.NewLife(context.Background()),
		clerks:   make(map[string]*clerk),
		sessions: make(map[sessionID]*session),
		vigils:   make(map[sessionID]*vigil),
		dead:     make(map[sessionID]time.Time),
		asked:    make(map[sessionID]time.Time),
	}
	d.keeper, _ = store.(Keeper)
	return d
}

func (d *Driver) Strength() driver.Strength {
	s := d.store.Strength()
	s.Order, s.Death = driver.FirstCome, driver.ByTTL
	if d.keeper != nil {
		s.Death = driver.ByKernel
	}
	return s
}

func (d *Driver) RequestTimeout() time.Duration { return d.timeout + d.timeout/4 }

// request returns a context for one request that the driver makes by itself.
func (d *Driver) request() (context.Context, context.CancelFunc) {
	return context.WithTimeout(d.life.Context(), d.timeout)
}

// requestFor returns a context for one request that somebody waits for.
func (d *Driver) requestFor(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	stop := context.AfterFunc(d.life.Context(), cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// failed returns what the caller that waits on ctx is told when a request has failed. If the store has forgotten, all
// sessions end.
func (d *Driver) failed(ctx context.Context, err error) error {
	if errors.Is(err, ErrForgot) {
		d.forgot(err)
	}
	return cmp.Or(ctx.Err(), err)
}

// saw logs trouble, at most once in 10 s.
func (d *Driver) saw(err error) {
	d.mu.Lock()
	quiet := time.Since(d.said) < 10*time.Second || d.life.Over()
	if !quiet {
		d.said = time.Now()
	}
	d.mu.Unlock()
	if !quiet {
		d.cfg.log.Warn("turnwise: the store gives trouble; what is under way is tried again", "error", err)
	}
}

// enough is how many clerks are kept although they have nothing to do: they know what their lines looked like last.
const enough = 1000

// clerk returns the clerk of a line. It is kept until leave is called.
func (d *Driver) clerk(name string) (c *clerk, leave func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c = d.clerks[name]
	if c == nil {
		d.thinOut()
		c = &clerk{d: d, name: name, key: lineKey + name}
		d.clerks[name] = c
	}
	c.mu.Lock()
	c.inUse++
	c.mu.Unlock()
	return c, sync.OnceFunc(func() {
		c.mu.Lock()
		c.inUse--
		c.mu.Unlock()
	})
}

// thinOut drops a few clerks that have nothing to do if there are many. It needs mu.
func (d *Driver) thinOut() {
	looks := 0
	for name, c := range d.clerks {
		if looks++; len(d.clerks) < enough || looks > 8 {
			return
		}
		c.mu.Lock()
		if c.inUse == 0 && !c.working && len(c.wishes) == 0 {
			delete(d.clerks, name)
		}
		c.mu.Unlock()
	}
}

func (d *Driver) session(id sessionID) *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions[id]
}

func (d *Driver) allSessions() []*session {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []*session
	for _, s := range d.sessions {
		all = append(all, s)
	}
	return all
}

// read returns a line as it stands. It rides out trouble as long as ctx lasts.
func (d *Driver) read(ctx context.Context, name string) (*line, error) {
	it, err := d.readItem(ctx, lineKey+name)
	if err != nil {
		return nil, err
	}
	if it.Version.IsZero() {
		return &line{}, nil
	}
	l, err := readLine(it.Value)
	if err != nil {
		return nil, fmt.Errorf("line %q: %w: %w", name, driver.ErrDenied, err)
	}
	return l, nil
}

func (d *Driver) readItem(ctx context.Context, key string) (Item, error) {
	for tries := 0; ; tries++ {
		if err := ctx.Err(); err != nil {
			return Item{}, err
		}
		rctx, cancel := d.requestFor(ctx)
		it, err := d.store.Read(rctx, key)
		cancel()
		switch {
		case err == nil:
			return it, nil
		case errors.Is(err, driver.ErrDenied) || d.life.Over():
			return Item{}, d.failed(ctx, err)
		}
		err = d.failed(ctx, err)
		if driverkit.Sleep(ctx, driverkit.Jitter(driverkit.Pause(tries))) != nil {
			if errors.Is(err, ctx.Err()) {
				return Item{}, err
			}
			return Item{}, fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// show returns up to most of a line's nodes, with all that they say. Data in a register of its own may be gone by the time
// it is read, because its node has gone; then show looks at the line again.
func (d *Driver) show(ctx context.Context, name string, most int) ([]driver.Node, *line, error) {
	missing := make(map[string]bool) // registers
look:
	for {
		l, err := d.read(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		var all []driver.Node
		room := driverkit.NewRoom(driverkit.LineBytes)
		for n := range l.nodes() {
			if len(all) == most {
				break
			}
			shown := l.full(name, n)
			if n.aside > 0 {
				it, err := d.readItem(ctx, l.id(n).dataKey(n.aside))
				if err != nil {
					return nil, nil, err
				}
				if it.Version.IsZero() && !missing[it.Key] {
					missing[it.Key] = true
					continue look
				}
				shown.Data = bytes.Clone(it.Value)
			}
			all = append(all, room.Keep(shown))
		}
		return all, l, nil
	}
}

func (d *Driver) Line(ctx context.Context, name string) ([]driver.Node, error) {
	all, _, err := d.show(ctx, name, driver.All)
	return all, err
}

func (d *Driver) Lines(ctx context.Context, prefix string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// A list may take longer than a request.
	lctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.life.Context(), cancel)()
	var names []string
	err := d.store.List(lctx, lineKey+prefix, func(it Item) bool {
		if l, err := parseLine(it.Value); err == nil && l.count > 0 {
			names = append(names, strings.TrimPrefix(it.Key, lineKey))
		}
		return true
	})
	if err != nil {
		return nil, d.failed(ctx, err)
	}
	slices.Sort(names)
	return names, nil
}

func (d *Driver) Remove(ctx context.Context, n driver.Node) error {
	id, ok := parseNodeID(n.ID)
	if !ok {
		return driver.ErrRemoved
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c, leave := d.clerk(n.Line)
	defer leave()
	return c.await(ctx, c.want(newWish(nil, func(dr *draft, t try) error {
		switch {
		case dr.remove(1, removed, func(n node) bool { return n.n == id.n && dr.members[n.member].id == id.session }):
			return nil
		case t.again: // an earlier try may have removed it
			return nil
		case t.fresh:
			return driver.ErrRemoved
		}
		return errLook
	})))
}

// EndSession ends a session, whoever owns it, and removes its nodes. An operator uses it to end all that a process holds and
// waits for. The id is what the IDs of the session's nodes begin with, up to the hyphen.
func (d *Driver) EndSession(ctx context.Context, id string) error {
	sid, ok := parseSessionID(id)
	if !ok {
		return fmt.Errorf("register: %q is no session", id)
	}
	for {
		rctx, cancel := d.requestFor(ctx)
		it, err := d.store.Read(rctx, sid.key())
		cancel()
		if err == nil && !it.Version.IsZero() {
			err = d.end(ctx, sid, it.Version)
		}
		switch {
		case errors.Is(err, ErrConflict):
		case err != nil:
			return d.failed(ctx, err)
		default:
			_, err = d.sweepLines(ctx)
			return err
		}
	}
}

// end ends a session unless it has been renewed since version.
func (d *Driver) end(ctx context.Context, id sessionID, version Version) error {
	rctx, cancel := d.requestFor(ctx)
	defer cancel()
	over := Note{id.key(), []byte{0, 0, allOver, 0}}
	_, err := d.store.Swap(rctx, Swap{Key: id.key(), Old: version, Notes: []Note{over}, By: d.self})
	if err == nil {
		d.buried(id)
		if s := d.session(id); s != nil {
			s.life.End(errEnded)
		}
	}
	return err
}

// buried records that a session is over, so that its nodes can be removed.
func (d *Driver) buried(id sessionID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead[id] = time.Now()
	if len(d.dead) > enough {
		for id, at := range d.dead {
			if time.Since(at) > time.Minute {
				delete(d.dead, id)
			}
		}
	}
}

func (d *Driver) isDead(id sessionID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, dead := d.dead[id]
	return dead
}

// prune removes the nodes of all sessions that are known to be dead.
func (d *Driver) prune(c *clerk) *wish {
	return c.want(newWish(nil, func(dr *draft, t try) error {
		if !dr.remove(math.MaxInt, died, func(n node) bool { return d.isDead(dr.members[n.member].id) }) && !t.fresh {
			return errLook
		}
		return nil
	}))
}

func (d *Driver) First(ctx context.Context, name string, seen *driver.Node) (driver.Node, error) {
	if seen != nil {
		return d.watchFirst(ctx, name, seen)
	}
	if d.life.Over() {
		return driver.Node{}, errClosed
	}
	n, _, err := d.first(ctx, name)
	return n, err
}

func (d *Driver) first(ctx context.Context, name string) (driver.Node, *line, error) {
	all, l, err := d.show(ctx, name, 1)
	if err != nil || len(all) == 0 {
		return driver.Node{}, l, err
	}
	return all[0], l, nil
}

func differs(n driver.Node, seen *driver.Node) bool {
	return seen == nil || n.ID != seen.ID || n.Kind != seen.Kind || !bytes.Equal(n.Data, seen.Data)
}

// Close ends all sessions and closes the store.
func (d *Driver) Close(ctx context.Context) error {
	var all sync.WaitGroup
	sessions := d.allSessions()
	errs := make([]error, len(sessions))
	for i, s := range sessions {
		all.Go(func() { errs[i] = s.Close(ctx) })
	}
	all.Wait()
	if !d.life.End(errClosed) {
		return nil
	}
	for _, s := range d.allSessions() { // opened meanwhile
		s.life.End(errClosed)
	}
	err := d.life.Rest(ctx)
	return errors.Join(errors.Join(errs...), err, d.store.Close())
}
