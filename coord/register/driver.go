package register

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// Driver carries turnwise's recipes on a Store.
type Driver struct {
	store        noticing
	presence     Presence     // nil if the store is none
	reconnecting Reconnecting // likewise
	cfg          config
	self         Version // By in all its swaps
	identity     *identity
	trusted      bool // only who may swap can tell
	timeout      time.Duration
	life         *driverkit.Life
	sure         bool          // nobody misses a note without hearing so
	bounded      bool          // nobody uses a longer TTL than cfg.longest
	mute         atomic.Bool   // the store does not tell of swaps
	recovered    atomic.Int64  // when it is over that nobody is granted anything, by clock.own
	trouble      driverkit.Max // a little more than when a request failed last, by clock.own; 0: none has
	clock        clock
	uptime       func() (m machine, up time.Duration, ok bool)

	mu        sync.Mutex
	clerks    map[string]*clerk
	sessions  map[sessionID]*session
	vigils    map[sessionID]*vigil
	asked     map[sessionID]time.Time // sessions that stood in the way of a TryLock, and when they were asked for
	called    map[sessionID]time.Time // when each of those was called last
	memory    string                  // the ID of the store's memory; "" before it was asked
	seenSince time.Time               // since when the store was seen to have it, as far as its clock does not deny that
	forgotAt  time.Time               // when the store was last found to have forgotten
	lapses    int                     // how often that was
	said      time.Time               // when trouble was logged last
	wentBack  time.Time               // when a line that went back was logged last
	nonsense  time.Time               // when a note that makes no sense was logged last
	unread    time.Time               // when a session that cannot be read was logged last

	sweeping sync.Once // starts the sweeper
}

var (
	errClosed = errors.New("register: the driver is closed")

	_ driver.Recovering = (*Driver)(nil)
)

// Store returns the store that the driver was made for.
func (d *Driver) Store() Store { return d.store.Store }

// New returns a driver for a store. It does no I/O. Closing the driver closes the store.
func New(store Store, opts ...Option) *Driver {
	cfg := config{ttl: DefaultTTL, longest: DefaultTTL, log: slog.New(slog.DiscardHandler)}
	for _, o := range opts {
		if o != nil {
			o(&cfg)
		}
	}
	d := &Driver{
		cfg:      cfg,
		self:     NewVersion(),
		identity: newIdentity(),
		timeout:  min(max(cfg.ttl/4, 400*time.Millisecond), 2*time.Second),
		life:     driverkit.NewLife(context.Background()),
		clerks:   make(map[string]*clerk),
		sessions: make(map[sessionID]*session),
		vigils:   make(map[sessionID]*vigil),
		asked:    make(map[sessionID]time.Time),
		called:   make(map[sessionID]time.Time),
		clock:    clock{base: time.Now(), keep: 2 * cfg.ttl},
		uptime:   uptime,
	}
	d.store = noticing{store, d}
	d.presence, _ = store.(Presence)
	d.reconnecting, _ = store.(Reconnecting)
	_, d.trusted = store.(interface{ OnlySwapsTell() }) // within a process; see internal/memory
	_, d.sure = store.(Sure)
	if d.bounded = isBounded(store); !d.bounded {
		d.cfg.longest = cfg.ttl
	}
	d.cfg.longest = min(d.cfg.longest, mostTTL)
	return d
}

func (d *Driver) Strength() driver.Strength { return Strength(d.store.Store) }

// Strength returns what a driver on a store promises. The store need not be open.
func Strength(store Store) driver.Strength {
	s := store.Strength()
	s.Order, s.Death = driver.FirstCome, driver.ByTTL
	if _, ok := store.(Presence); ok {
		s.Death = driver.ByKernel
	}
	return s
}

// RequestTimeout is a little over a quarter of the TTL: half a second at least, and 2.5 s at most.
func (d *Driver) RequestTimeout() time.Duration { return d.timeout + d.timeout/4 }

// unanswered is how long a holder asks whether what a hint says is true, before it stops. Meanwhile the next one may have
// been let in, but who may only send hints cannot end a hold of a store that answers.
func (d *Driver) unanswered() time.Duration { return d.timeout / 2 }

func (d *Driver) Open(ctx context.Context) (driver.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if d.life.Over() {
		return nil, fmt.Errorf("%w: %w", driver.ErrDenied, errClosed)
	}
	if err := CheckTTL(d.store.Store, d.cfg.ttl, d.cfg.longest); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrDenied, err)
	}
	asked := d.clock.own(time.Now())
	lapses, err := d.remembers(ctx)
	if err != nil {
		return nil, err
	}
	s := newSession(d)
	if err = s.open(ctx); err != nil {
		err = d.failed(ctx, err)
	} else if d.hadTrouble(asked) { // the server may have come back with an older disk since it was asked what it remembers
		_, err = d.remembers(ctx)
	}
	if err == nil && !d.begin(s, lapses) {
		err = fmt.Errorf("%w while the session was opened", ErrForgot)
	}
	if err != nil {
		s.life.End(errUnopened)
		s.free()
		return nil, err
	}
	if !d.life.Go(func() {
		<-s.life.Done()
		d.ended(s)
	}) {
		s.life.End(errClosed)
		d.ended(s)
		return nil, s.life.Why()
	}
	s.life.Go(s.keepUp)
	if d.sure && d.presence == nil {
		s.life.Go(s.seeCalls)
	}
	d.sweep()
	return s, nil
}

// request returns a context for one request that the driver makes by itself.
func (d *Driver) request() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(d.life.Context(), d.timeout, errUnanswered)
}

// requestFor returns a context for one request that somebody waits for.
func (d *Driver) requestFor(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeoutCause(ctx, d.timeout, errUnanswered)
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

// listen begins to listen, unless the store is mute.
func (d *Driver) listen(ctx context.Context, topic string, hear func([]byte)) (stop func(), err error) {
	if d.mute.Load() {
		return func() {}, nil
	}
	lctx, cancel := d.requestFor(ctx)
	defer cancel()
	stop, err = d.store.Listen(lctx, topic, hear)
	switch {
	case errors.Is(err, ErrMute):
		d.mute.Store(true)
		return func() {}, nil
	case err != nil:
		return nil, d.failed(ctx, err)
	}
	return stop, nil
}

// saw logs trouble, at most once in 10 s.
func (d *Driver) saw(err error) {
	d.warn(&d.said, 10*time.Second, "turnwise: the store gives trouble; what is under way is tried again", "err", err)
}

// madeNoSense logs a note, at most once in 10 min. Anybody may send such notes: they must not hide trouble, or fill the log.
func (d *Driver) madeNoSense(note []byte) {
	d.warn(&d.nonsense, 10*time.Minute, "turnwise: a note that makes no sense", "note", fmt.Sprintf("%.60q", note))
}

// cannotTell logs that a session cannot be read whose end somebody waits for, at most once in 10 min.
func (d *Driver) cannotTell(id sessionID, err error) {
	d.warn(&d.unread, 10*time.Minute, "turnwise: whether a session that others wait for has died cannot be told here", "session", id.String(), "err", err)
}

// warn logs a warning unless one of its kind was logged a short time ago, at *last.
func (d *Driver) warn(last *time.Time, every time.Duration, message string, args ...any) {
	d.mu.Lock()
	quiet := !last.IsZero() && time.Since(*last) < every || d.life.Over()
	if !quiet {
		*last = time.Now()
	}
	d.mu.Unlock()
	if !quiet {
		d.cfg.log.Warn(message, args...)
	}
}

// mostRemembered is how many of a kind are kept although nobody needs them: clerks, which know what their lines looked like
// last, and sessions that were asked for.
const mostRemembered = 1000

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
		if looks++; len(d.clerks) < mostRemembered || looks > 8 {
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
