// Package election chooses one leader among all processes that share a service. A leader stays one for as long as it
// lives and wants to.
//
// All recipes share one set of names: a mutex, a read/write lock, a semaphore and an election of the same name on the
// same service wait for each other. coord.Error tells the kind of the node that is in the way.
package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// ErrNoLeader says that the seat is vacant.
var ErrNoLeader = errors.New("no leader")

// Election is a name and a client. It holds no state and does no I/O until asked; make one wherever you need it.
type Election struct {
	client  *coord.Client
	name    string
	opts    []coord.AcquireOption // of each campaign
	maxWait *time.Duration        // of Campaign; nil: it waits for ever
	rank    *int                  // nil: it gives way to nobody
}

// Option sets up an Election. A nil Option changes nothing.
type Option func(*Election)

// MaxWait bounds how long Campaign waits. After that it returns an error that is both context.DeadlineExceeded and
// coord.ErrBusy, or coord.ErrUnavailable if the service could not be reached. With zero or less it takes the seat if
// nobody stands, and does not wait at all. MaxWait does not bound Run: a program that wants to lead whenever it can
// gains nothing by leaving its place in the line.
func MaxWait(d time.Duration) Option {
	return func(e *Election) { e.maxWait = &d }
}

// MaxTerm bounds how long a term lasts: then it ends by itself, with coord.ErrLost, and others lead before the same candidate can
// lead again. Its context has that deadline. See coord.MaxHold.
func MaxTerm(d time.Duration) Option {
	return func(e *Election) { e.opts = append(e.opts, coord.MaxHold(d)) }
}

// New returns the election of that name.
func New(c *coord.Client, name string, opts ...Option) *Election {
	e := &Election{client: c, name: name}
	for _, o := range opts {
		if o != nil {
			o(e)
		}
	}
	return e
}

// Term is the time for which somebody leads: a hold with a value that everybody can see.
type Term struct {
	*coord.Hold
	of *Election
}

var rule = coord.RuleOf(rules.Lead)

// Campaign stands for election and waits until it is won. value, of at most coord.MaxData bytes, is shown to everyone
// who asks for the leader or the candidates: an address, say. ctx governs the wait, not the term. To resign, release
// the term. On failure nothing stays behind. If ctx descends from a term of the same election, Campaign returns
// coord.ErrHeld.
func (e *Election) Campaign(ctx context.Context, value []byte) (*Term, error) {
	return e.campaign(ctx, value, e.maxWait)
}

func (e *Election) campaign(ctx context.Context, value []byte, maxWait *time.Duration) (*Term, error) {
	var retries driverkit.Retries
	for began := time.Now(); ; {
		opts := slices.Clone(e.opts)
		if maxWait != nil {
			opts = append(opts, coord.MaxWait(max(*maxWait, 0)-time.Since(began)))
		}
		tried := time.Now()
		h, err := e.client.Acquire(ctx, e.name, rules.Lead, value, rule, opts...)
		if err != nil {
			return nil, err
		}
		t := &Term{h, e}
		gives, end := t.givesWay(ctx)
		if !gives && end == nil {
			return t, nil
		}
		_ = h.Release()
		switch {
		case !gives && !errors.Is(end, coord.ErrRemoved): // as each term does if MaxTerm is shorter than a look
			_ = retries.Sleep(ctx, tried)
		case errors.Is(end, coord.ErrRemoved):
			return nil, &coord.Error{Op: "acquire", Line: e.name, Err: coord.ErrRemoved}
		case gives && ctx.Err() != nil:
			return nil, &coord.Error{Op: "acquire", Line: e.name, Err: fmt.Errorf("%w: %w: a better candidate stands", ctx.Err(), coord.ErrBusy)}
		}
	}
}

// Proclaim replaces the value that the term shows.
func (t *Term) Proclaim(ctx context.Context, value []byte) error {
	return t.Amend(ctx, rules.Lead, value)
}

// Leader returns the leader, or ErrNoLeader. Any other holder of the line, such as that of a mutex of the same name, is
// no leader. By the time you look at the answer, the leader may be another: to act as the leader, hold the term; to act
// for the leader, check its token.
func (e *Election) Leader(ctx context.Context) (coord.Node, error) {
	first, err := e.client.First(ctx, e.name)
	if err != nil {
		return coord.Node{}, err
	}
	if !stands(first) {
		return coord.Node{}, e.vacant()
	}
	return first, nil
}

// Candidates returns all candidates, the leader first.
func (e *Election) Candidates(ctx context.Context) ([]coord.Node, error) {
	line, err := e.client.Line(ctx, e.name)
	return slices.DeleteFunc(line, func(n coord.Node) bool { return !stands(n) }), err
}

// stands reports whether a node is a candidate's. Those of other tools do not have our kind for it: they count as
// locks, and have no owner.
func stands(n coord.Node) bool {
	return n.Kind == rules.Lead || n.Kind == rules.Lock && n.Owner == coord.Owner{} && n.ID != ""
}

func (e *Election) vacant() error {
	return &coord.Error{Op: "leader", Line: e.name, Err: ErrNoLeader}
}
