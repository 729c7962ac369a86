// Package slogobs logs what a client does, one line for each thing that an operator wants to know:
//
//	error  a hold was lost, and how long it had lasted
//	warn   the service is out of reach; a session has ended with somebody in line; a waiter lost its place; a hold or a wait is long
//	debug  everybody's turns: waiting, granted, amended, released, given up; sessions opened
//
//	client, err := zk.Connect(ctx, servers, zk.WithClient(coord.WithObserver(slogobs.New(slog.Default()))))
//
// At the level info a service that works says nothing.
package slogobs

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord"
)

// Option changes what is logged.
type Option func(*logger)

// LongHold warns of each hold that lasts for longer than d, as soon as it does. Zero, which is the default: of none.
func LongHold(d time.Duration) Option { return func(l *logger) { l.longHold = d } }

// LongWait warns of each wait that lasts for longer than d, as soon as it does. Zero, which is the default: of none.
func LongWait(d time.Duration) Option { return func(l *logger) { l.longWait = d } }

// New returns an Observer that writes to log, or to slog.Default if log is nil. Of warnings and errors with the same message about
// the same line it writes ten in a minute; the first one after that says how many were left out. It may be given to several clients.
func New(log *slog.Logger, opts ...Option) *coord.Observer {
	if log == nil {
		log = slog.Default()
	}
	l := &logger{log: log, said: make(map[subject]*tally)}
	for _, o := range opts {
		if o != nil {
			o(l)
		}
	}
	o := l.observer()
	o.ForClient = l.observer
	return o
}

type logger struct {
	log      *slog.Logger
	longHold time.Duration
	longWait time.Duration

	mu   sync.Mutex
	said map[subject]*tally
}

// client is what has to be known of one client from one event to the next. Lines, nodes and tokens of two may be called the same.
type client struct {
	*logger

	mu      sync.Mutex
	watched map[stretch]*time.Timer // what warns of a hold or a wait when it has become long
	granted map[stretch]time.Time   // since when each hold lasts
}

// stretch is a wait or a hold, from its beginning to its end. A place that callers share waits once, and has many turns, each with a
// token of its own.
type stretch struct {
	line  string
	id    string      // of the node that waits
	token coord.Token // of the hold
}

func waitOf(n coord.Node) stretch { return stretch{line: n.Line, id: n.ID} }
func holdOf(n coord.Node) stretch { return stretch{line: n.Line, token: n.Token} }

// subject is what warnings are counted by.
type subject struct{ message, line string }

type tally struct {
	since         time.Time
	written, left int
}

func (l *logger) observer() *coord.Observer {
	c := &client{logger: l, watched: make(map[stretch]*time.Timer), granted: make(map[stretch]time.Time)}
	return &coord.Observer{
		SessionOpened: func(at time.Time) { l.write(at, slog.LevelDebug, "turnwise: a session is open", "") },
		SessionEnded: func(at time.Time, why error) {
			if why == nil {
				l.write(at, slog.LevelDebug, "turnwise: the session was closed", "")
				return
			}
			l.write(at, slog.LevelWarn, "turnwise: the session has ended", "", "err", why)
		},
		OpenFailed: func(at time.Time, err error) {
			l.write(at, slog.LevelWarn, "turnwise: no session can be opened", "", "err", err)
		},
		Waiting: func(at time.Time, me coord.Node, ahead int) {
			l.node(at, slog.LevelDebug, "turnwise: waiting", me, "ahead", ahead)
			c.watch(waitOf(me), at, me, l.longWait, "turnwise: a wait is long", "waits")
		},
		Rejoining: func(at time.Time, lost coord.Node) {
			c.unwatch(waitOf(lost))
			l.node(at, slog.LevelWarn, "turnwise: a waiter has lost its place and joins again at the end", lost)
		},
		GaveUp: func(at time.Time, me coord.Node, waited time.Duration, err error) {
			c.unwatch(waitOf(me))
			l.node(at, slog.LevelDebug, "turnwise: gave up", me, "waited", waited, "err", err)
		},
		Granted: func(at time.Time, me coord.Node, waited time.Duration) {
			c.unwatch(waitOf(me))
			l.node(at, slog.LevelDebug, "turnwise: granted", me, "waited", waited)
			c.begin(holdOf(me), at)
			c.watch(holdOf(me), at, me, l.longHold, "turnwise: a hold is long", "held")
		},
		Amended: func(at time.Time, me coord.Node) { l.node(at, slog.LevelDebug, "turnwise: amended", me) },
		Released: func(at time.Time, me coord.Node, held time.Duration) {
			c.unwatch(holdOf(me))
			c.end(holdOf(me))
			l.node(at, slog.LevelDebug, "turnwise: released", me, "held", held)
		},
		Lost: func(at time.Time, me coord.Node, err error) {
			c.unwatch(holdOf(me))
			attrs := []any{"err", err}
			if began, known := c.end(holdOf(me)); known {
				attrs = append(attrs, "held", max(at.Sub(began), 0)) // a session may have been seen alive last before the grant
			}
			l.node(at, slog.LevelError, "turnwise: a hold was lost", me, attrs...)
		},
	}
}

// node writes about a node.
func (l *logger) node(at time.Time, level slog.Level, message string, n coord.Node, more ...any) {
	if !l.log.Enabled(context.Background(), level) { // most turns are told at a level that nobody reads
		return
	}
	l.write(at, level, message, n.Line, append([]any{"kind", n.Kind, "token", n.Token, "owner", owner(n.Owner)}, more...)...)
}

// write writes a line, as of when it happened. What comes from elsewhere is made fit to be shown.
func (l *logger) write(at time.Time, level slog.Level, message, line string, attrs ...any) {
	ctx := context.Background()
	if !l.log.Enabled(ctx, level) {
		return
	}
	left := 0
	if level >= slog.LevelWarn {
		may := false
		if may, left = l.may(subject{message, line}); !may {
			return
		}
	}
	r := slog.NewRecord(at, level, message, 0)
	if line != "" {
		r.AddAttrs(slog.String("line", coord.Printable(line)))
	}
	for i := 0; i+1 < len(attrs); i += 2 {
		value := attrs[i+1]
		switch v := value.(type) {
		case string:
			value = coord.Printable(v)
		case error:
			value = coord.Printable(v.Error())
		}
		r.Add(attrs[i], value)
	}
	if left > 0 {
		r.AddAttrs(slog.Int("left_out", left))
	}
	_ = l.log.Handler().Handle(ctx, r)
}

const (
	mostInAMinute = 10
	mostSubjects  = 1000
	mostHolds     = 100_000 // that are remembered; of others a loss does not say for how long they lasted
)

// may reports whether one more warning may be written, and how many were left out before it.
func (l *logger) may(s subject) (may bool, left int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.said[s]
	if t == nil {
		if len(l.said) >= mostSubjects {
			clear(l.said)
		}
		t = &tally{since: time.Now()}
		l.said[s] = t
	}
	if time.Since(t.since) >= time.Minute {
		left, t.left = t.left, 0
		t.since, t.written = time.Now(), 0
	}
	if t.written >= mostInAMinute {
		t.left++
		return false, 0
	}
	t.written++
	return true, left
}

// watch warns once if what began then has not ended after that time.
func (c *client) watch(it stretch, began time.Time, n coord.Node, after time.Duration, message, what string) {
	if after <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched[it] = time.AfterFunc(after-time.Since(began), func() {
		c.node(time.Now(), slog.LevelWarn, message, n, what, time.Since(began).Round(time.Millisecond))
	})
}

func (c *client) unwatch(it stretch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if timer := c.watched[it]; timer != nil {
		timer.Stop()
		delete(c.watched, it)
	}
}

// begin remembers since when a hold lasts.
func (c *client) begin(it stretch, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.granted) < mostHolds {
		c.granted[it] = at
	}
}

// end forgets a hold, and returns since when it has lasted, if that is known.
func (c *client) end(it stretch) (began time.Time, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	began, known = c.granted[it]
	delete(c.granted, it)
	return began, known
}

func owner(o coord.Owner) string {
	name := fmt.Sprintf("%s/%d", o.Host, o.PID)
	if o.Label != "" {
		name = o.Label + " " + name
	}
	return name
}
