package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

const (
	// pingEvery is how often the connection is asked whether it is alive, since one that is cut says nothing, and pingFor how
	// long it has for the answer.
	pingEvery = 3 * time.Second
	pingFor   = 3 * time.Second
)

// listener has one connection for all topics. Only its goroutine uses that, and sees to it that it listens to what is
// wanted.
type listener struct {
	connect func(ctx context.Context, known *memory) (*pgx.Conn, error) // to where the memory is
	table   table
	plain   pgx.QueryExecMode
	log     *slog.Logger
	known   *storekit.Known[*memory]
	life    *driverkit.Life

	mu        sync.Mutex
	topics    map[string]*topic // what is wanted
	changed   bool              // since the goroutine last looked
	interrupt context.CancelFunc
	trouble   error // why there is no connection

	channels map[string]*topic // what is listened to; only the goroutine uses it
}

// topic is guarded by its listener's mu, except for half.
type topic struct {
	name    string
	ears    []*ear
	heard   bool          // it was listened to before, so notes may have been lost since
	ready   chan struct{} // closed while it is listened to
	waiting bool          // ready is not closed
	half    []byte        // what has come of a note so far
}

// ear is one caller that listens.
type ear struct {
	mu      sync.Mutex
	hear    func([]byte)
	stopped bool
}

func (e *ear) tell(note []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.stopped {
		e.hear(note)
	}
}

func (l *listener) listen(ctx context.Context, name string, hear func([]byte)) (stop func(), err error) {
	e := &ear{hear: hear}
	l.mu.Lock()
	t := l.topics[name]
	if t == nil {
		t = &topic{name: name, ready: make(chan struct{}), waiting: true}
		l.topics[name] = t
	}
	t.ears = append(t.ears, e)
	ready := t.ready
	l.mu.Unlock()
	l.bell()
	stop = func() {
		l.mu.Lock()
		t.without(e)
		if len(t.ears) == 0 && l.topics[name] == t {
			delete(l.topics, name)
		}
		l.mu.Unlock()
		l.bell()
		e.mu.Lock()
		e.stopped = true
		e.mu.Unlock()
	}
	select {
	case <-ready:
		return sync.OnceFunc(stop), nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-l.life.Done():
		err = storekit.ErrClosed
	}
	stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trouble != nil {
		err = fmt.Errorf("%w: %w", err, l.trouble)
	}
	return nil, err
}

func (t *topic) without(e *ear) {
	var rest []*ear
	for _, other := range t.ears {
		if other != e {
			rest = append(rest, other)
		}
	}
	t.ears = rest
}

// bell has the goroutine look what is wanted.
func (l *listener) bell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed = true
	if l.interrupt != nil {
		l.interrupt()
	}
}

func (l *listener) close() {
	l.life.End(storekit.ErrClosed)
	_ = l.life.Rest(context.Background())
}

func (l *listener) run() {
	ctx := l.life.Context()
	var said string
	for tries := 0; ctx.Err() == nil; tries++ {
		begun := time.Now()
		err := l.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		l.deaf(err)
		if time.Since(begun) > pingEvery {
			tries, said = 0, ""
		}
		if text := err.Error(); text != said && err != errElsewhere {
			l.log.Warn("postgres: the listening is interrupted, trying on", "err", storekit.OneLine(err))
			said = text
		}
		_ = driverkit.Sleep(ctx, driverkit.Jitter(driverkit.Pause(tries)))
	}
}

// deaf makes those who want to listen from now on wait.
func (l *listener) deaf(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trouble = err
	for _, t := range l.topics {
		if !t.waiting {
			t.ready, t.waiting = make(chan struct{}), true
		}
	}
}

var errElsewhere = errors.New("the server is another one now")

// serve listens on one connection until that fails.
func (l *listener) serve(ctx context.Context) error {
	known, err := l.known.Current()
	if err != nil {
		return err
	}
	l.channels = make(map[string]*topic)
	c, err := l.connect(ctx, known)
	if err != nil {
		return err
	}
	defer hangUp(c)
	for {
		if now, err := l.known.Current(); err == nil && now.id != known.id {
			return errElsewhere
		}
		if err := l.adjust(ctx, c, known); err != nil {
			return err
		}
		wait, cancel := context.WithTimeout(ctx, pingEvery)
		l.mu.Lock()
		if l.interrupt = cancel; l.changed {
			cancel()
		}
		l.mu.Unlock()
		err := c.PgConn().WaitForNotification(wait)
		ended := wait.Err()
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
		case c.IsClosed():
			return err
		case ended == context.DeadlineExceeded:
			if err := l.ping(ctx, c, known); err != nil {
				return err
			}
		case ended == nil:
			return err
		}
	}
}

func (l *listener) exec(ctx context.Context, c *pgx.Conn, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, pingFor)
	defer cancel()
	return c.PgConn().Exec(ctx, sql).Close() // and keep nothing of the answers
}

// ping also takes in how far the server's log has come, so that it is noticed if the disk is put back.
func (l *listener) ping(ctx context.Context, c *pgx.Conn, known *memory) error {
	ctx, cancel := context.WithTimeout(ctx, pingFor)
	defer cancel()
	var lsn int64
	if err := c.QueryRow(ctx, "SELECT "+lsnSQL, l.plain).Scan(&lsn); err != nil {
		return l.table.explain(err)
	}
	known.reached.Saw(lsn)
	return nil
}

// adjust listens to what is wanted, and to nothing else.
func (l *listener) adjust(ctx context.Context, c *pgx.Conn, known *memory) error {
	var sql strings.Builder
	wanted := make(map[string]*topic)
	var fresh []*topic
	l.mu.Lock()
	l.changed = false
	for name, t := range l.topics {
		channel := known.channel(name)
		wanted[channel] = t
		if l.channels[channel] == nil {
			fmt.Fprintf(&sql, "LISTEN %q;", channel)
		}
		if l.channels[channel] != t {
			fresh = append(fresh, t)
		}
	}
	for channel := range l.channels {
		if wanted[channel] == nil {
			fmt.Fprintf(&sql, "UNLISTEN %q;", channel)
		}
	}
	l.mu.Unlock()
	old := l.channels
	// A note may come with the answer.
	l.channels = wanted
	if sql.Len() > 0 {
		if err := l.exec(ctx, c, sql.String()); err != nil {
			l.channels = old
			return err
		}
	}
	for _, t := range fresh {
		l.began(t)
	}
	return nil
}

// began wakes those who wait for the listening to begin, and tells those who were listening before that they may have missed
// something.
func (l *listener) began(t *topic) {
	l.mu.Lock()
	l.trouble = nil
	before := t.heard
	t.heard = true
	t.half = nil
	ears := t.ears
	if t.waiting {
		t.waiting = false
		close(t.ready)
	}
	l.mu.Unlock()
	if before {
		for _, e := range ears {
			e.tell(nil)
		}
	}
}

// hear is called for each notification, by the goroutine.
func (l *listener) hear(channel, text string) {
	t := l.channels[channel]
	if t == nil {
		return
	}
	part, piece, err := decode(text)
	half := t.half
	t.half = nil
	l.mu.Lock()
	ears := t.ears
	l.mu.Unlock()
	tell := func(note []byte) {
		for _, e := range ears {
			e.tell(note)
		}
	}
	if half != nil && part != secondHalf {
		tell(nil) // somebody else has said half a note
	}
	switch {
	case err != nil || part == secondHalf && half == nil:
		tell(nil)
	case part == firstHalf:
		t.half = piece
	case part == secondHalf:
		tell(append(half, piece...))
	default:
		tell(piece)
	}
}
