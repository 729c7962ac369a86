//go:build linux || darwin

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/people"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
	"github.com/turnwise/turnwise/coord"
)

// waiter stands in line at a service for what is requested, once or for one turn after another, and shows the wait.
type waiter struct {
	*request
	service *service
	to      *backend.Service
	url     string // of the service

	reports *status.Reporter
	signals *signals
	client  *coord.Client
	extra   []string        // variables that the command gets besides, of cron and shards
	me      chan coord.Node // where it has to wait, one place after the other
}

func newWaiter(s *service, r *request) (*waiter, error) {
	to, url, err := s.find()
	if err != nil {
		return nil, err
	}
	w := &waiter{request: r, service: s, to: to, url: url, me: make(chan coord.Node, 16)}
	if s.fallback && to.Directory() != "" && !r.quiet && os.Getenv(holderVariable) == "" && !term.IsTerminal(0) {
		fmt.Fprintf(people.Err, "turnwise: %q counts for this user on this machine alone, in %s: nobody has said which service to use (see --backend, --require)\n",
			r.name, to.Directory())
	}
	return w, nil
}

// connect begins the session. What becomes of it is reported, and from now on signals are caught.
func (w *waiter) connect(reports *status.Reporter) error {
	w.reports, w.signals = reports, catch()
	traced, err := traceTo(w.trace, w.to)
	if err != nil {
		return err
	}
	opts := []backend.Option{backend.WithClient(
		coord.WithObserver(traced),
		coord.WithOwnerLabel(w.label),
		coord.WithObserver(&coord.Observer{Waiting: func(_ time.Time, me coord.Node, _ int) { w.standsAt(me) }}),
	)}
	if w.ttl.Duration > 0 {
		opts = append(opts, backend.WithTTL(w.ttl.Duration))
	}
	if w.noteTurn {
		opts = append(opts, backend.WithClient(coord.WithTurnNotes()))
	}
	ctx, cancel := w.signals.untilEnd(context.Background())
	defer cancel()
	if w.try || w.wait.Duration > 0 { // this is not yet the wait in line
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, min(max(w.wait.Duration, connectFor), longestConnect))
		defer stop()
	}
	late := time.AfterFunc(2*time.Second, func() {
		if !w.quiet {
			fmt.Fprintf(people.Err, "turnwise: no answer from %s yet\n", w.to)
		}
	})
	defer late.Stop()
	w.client, err = w.service.open(ctx, w.to, opts...)
	switch {
	case err == nil:
		return nil
	case w.signals.ended() != nil:
		return w.signals.ended()
	case codeOf(err) == codeConfig && w.ttl.Duration > 0:
		return &failure{codeUsage, err}
	}
	return err
}

// connectFor is the least time to try to reach the service when the wait is limited, and longestConnect the longest. Otherwise the
// driver decides, and takes as long.
const (
	connectFor     = 5 * time.Second
	longestConnect = 30 * time.Second
)

// close ends the session after an outcome. If the command may still run, the session must expire instead, so that nobody
// enters beside the command.
func (w *waiter) close(outcome error) {
	if !overlaps(outcome) {
		closeWithin(w.client, closeFor)
	}
}

// closeFor is how long to wait for the end of a session. If the service does not hear of it, the session ends by itself.
const closeFor = time.Second

// take waits for the turn.
func (w *waiter) take() (turn, error) {
	hold, err := w.stand()
	switch {
	case err == nil:
		return hold, nil
	case codeOf(err) != codeBusy:
		return nil, err
	case w.quiet:
		return nil, fail(w.busyCode, "%w", errSilent)
	}
	if left := recovery(w.client); left > 0 {
		return nil, fail(w.busyCode, "%q: %s", w.name, recovers(w.to, left))
	}
	return nil, taken(w.busyCode, w.whoHas(err))
}

// whoHas adds to an error who has the line, if the error does not say that: a wait that was too long knows only that it was.
func (w *waiter) whoHas(err error) error {
	var e *coord.Error
	if !errors.As(err, &e) || e.Blocker.Owner != (coord.Owner{}) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookFor)
	defer cancel()
	line, lineErr := w.client.Line(ctx, e.Line)
	if i := slices.IndexFunc(line, func(n coord.Node) bool { return n.Holds }); lineErr == nil && i >= 0 {
		with := *e
		with.Blocker = line[i]
		return &with
	}
	return err
}

// lookFor is how long to look who has the line once the wait is over.
const lookFor = time.Second

// heldAround refuses to wait for a line that is already held for the command in which this turnwise runs: it would wait
// forever.
func (w *waiter) heldAround() error {
	if w.several {
		return nil
	}
	around := heldAround(w.to.ID())
	around = slices.DeleteFunc(around, func(h held) bool { return !slices.Contains(w.names(), h.line) })
	if len(around) == 0 {
		return nil
	}
	ctx, cancel := w.signals.untilEnd(context.Background())
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, reachFor)
	defer stop()
	for _, h := range around {
		line, err := w.client.Line(ctx, h.line)
		if ended := w.signals.ended(); ended != nil {
			return ended
		}
		if err != nil {
			return refused(err)
		}
		if slices.ContainsFunc(line, func(n coord.Node) bool { return n.Holds && n.Token == h.token }) {
			return fail(w.busyCode, "%q is held already by what this one runs in (%s): it would wait for itself", h.line, holdsVariable)
		}
	}
	return nil
}

// stand stands in line until it is our turn, the wait is over, or a signal ends it.
func (w *waiter) stand() (turn, error) {
	ctx, cancel := w.signals.untilEnd(context.Background())
	defer cancel()
	if w.wait.Duration > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, w.wait.Duration)
		defer stop()
	}
	if !w.reports.Quiet() && !w.try {
		shown := make(chan struct{})
		watching, stop := context.WithCancel(ctx)
		go func() {
			defer close(shown)
			w.show(watching)
		}()
		defer func() {
			stop()
			<-shown
			w.reports.Over()
		}()
	}
	hold, err := w.acquire(ctx, w.client, w.try)
	if ended := w.signals.ended(); ended != nil {
		if err == nil {
			hold.Release()
		}
		return nil, ended
	}
	if err != nil {
		return nil, refused(err)
	}
	return hold, nil
}

// standsAt remembers where we stand. If nobody looks, the oldest place is forgotten.
func (w *waiter) standsAt(me coord.Node) {
	for {
		select {
		case w.me <- me:
			return
		default:
		}
		select {
		case <-w.me:
		default:
		}
	}
}

// showEvery is how often a wait is shown again. Looking may take no more than a twentieth of the time, because a long line takes
// long to read and many may wait in it.
const showEvery = time.Second

func (w *waiter) show(ctx context.Context) {
	var places []coord.Node // by line; of several the first counts: it steps back from the others
	late := time.After(5 * time.Second)
	told := w.quiet
	for pause := showAfter; ; {
		select {
		case <-ctx.Done():
			return
		case me := <-w.me:
			late = nil
			places = slices.DeleteFunc(places, func(n coord.Node) bool { return n.Line == me.Line })
			i, _ := slices.BinarySearchFunc(places, me, func(a, b coord.Node) int { return strings.Compare(a.Line, b.Line) })
			places = slices.Insert(places, i, me)
			continue
		case <-late:
			late = nil
			if !w.quiet {
				fmt.Fprintf(people.Err, "turnwise: not in line yet: 'turnwise doctor' says what is wrong with %s\n", w.to)
			}
			continue
		case <-time.After(pause):
		}
		pause = showEvery
		if len(places) == 0 {
			if left := recovery(w.client); left > 0 && !told {
				told, late = true, nil
				fmt.Fprintf(people.Err, "turnwise: %s\n", recovers(w.to, left))
			}
			continue
		}
		began := time.Now()
		for len(places) > 0 {
			line, err := w.client.Line(ctx, places[0].Line)
			if err != nil || w.reports.Waiting(line, places[0]) {
				break
			}
			places = places[1:]
		}
		pause = max(pause, 20*time.Since(began))
	}
}
