// Package once runs a job once in a slot, whoever runs it: at most once, or at least once, among all processes that share a
// service. A slot is a number that grows: of the hour, of the day, of a batch.
//
// A lock alone does not do that: it keeps two processes from running at the same time, and not from running one after the
// other. So the line has a memo, which its holder writes and which stays: the last slot that was run.
//
// The memo lasts as long as the service remembers. One that forgets in a restart, such as a Redis without a disk or memcached, may
// have a slot run again then: insist on more with coord.Require.
//
// All recipes share one set of names: a job waits for a mutex of the same name, and the other way round.
package once

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// Policy says what becomes of a slot whose process comes to an end in the middle. There is no default.
type Policy int

const (
	// AtMostOnce: the slot is noted before the job begins. If its process dies then, nobody runs that slot again.
	AtMostOnce Policy = iota + 1

	// AtLeastOnce: the slot is noted when the job has returned without an error. If its process dies before, or the job fails,
	// another one runs it. It may run twice: a process may be stopped past the end of its hold, and go on while the next one
	// runs. So pass the hold's token to whatever the job writes to.
	AtLeastOnce
)

// Job is a name, a policy and a client. It holds no state and does no I/O until asked; make one wherever you need it. All who use
// the name should say the same policy.
type Job struct {
	client *coord.Client
	name   string
	policy Policy
	opts   []mutex.Option
	report func(Event)
	now    func() time.Time // what the wall clock shows
}

// Option sets up a Job. A nil Option changes nothing.
type Option func(*Job)

// MaxWait bounds how long Do waits for others who run the job. After that it returns an error that is both
// context.DeadlineExceeded and coord.ErrBusy, or coord.ErrUnavailable. With zero or less it does not wait at all.
func MaxWait(d time.Duration) Option {
	return func(j *Job) { j.opts = append(j.opts, mutex.MaxWait(d)) }
}

// New returns the job of that name.
func New(c *coord.Client, name string, policy Policy, opts ...Option) *Job {
	j := &Job{client: c, name: name, policy: policy, now: time.Now}
	for _, o := range opts {
		if o != nil {
			o(j)
		}
	}
	return j
}

// Do runs fn, unless the slot or a later one is settled, and says whether it did. It waits for whoever runs the job at the moment.
// fn's context ends with the hold or with ctx.
//
// The error is coord's or fn's. If fn has not run then, AtMostOnce may have noted the slot all the same, when no answer came in time
// (coord.ErrUnsettled) or the hold was lost just then (coord.ErrLost): then nobody runs it. Run knows that it was not run, and
// runs it.
func (j *Job) Do(ctx context.Context, slot int64, fn func(ctx context.Context, h *coord.Hold) error) (ran bool, err error) {
	if fn == nil {
		return false, j.invalid("the function is nil")
	}
	t := turn{Job: j, slot: slot}
	err = t.take(ctx, fn)
	return t.ran, err
}

// turn is a slot that a process wants to run: one try after the other.
type turn struct {
	*Job
	slot  int64
	last  Record        // what was noted, at the last look
	inert []coord.Token // of holds that may have noted the slot, and under which nothing has run
	ran   bool          // by the last try
}

func (t *turn) take(ctx context.Context, fn func(ctx context.Context, h *coord.Hold) error) error {
	t.ran = false
	if err := t.check(); err != nil {
		return err
	}
	// A look that is old can only miss that it is settled.
	if settled, err := t.look(t.Last(ctx)); err != nil || settled {
		return err
	}
	return mutex.New(t.client, t.name, t.opts...).Do(ctx, func(ctx context.Context, h *coord.Hold) error {
		settled, err := t.begin(ctx, h)
		if err != nil || settled {
			return err
		}
		t.ran = true
		if err := fn(ctx, h); err != nil {
			return err
		}
		return t.End(context.WithoutCancel(ctx), t.slot, h)
	})
}

// look reports whether nobody runs the slot any more.
func (t *turn) look(last Record, err error) (settled bool, _ error) {
	if err != nil {
		return false, err
	}
	if t.last = last; last.Slot == t.slot && !last.Done && slices.Contains(t.inert, last.Token) {
		return false, nil
	}
	return t.settles(last, t.slot), nil
}

// begin looks under the hold, and notes with AtMostOnce that the slot begins.
func (t *turn) begin(ctx context.Context, h *coord.Hold) (settled bool, err error) {
	if settled, err := t.look(t.recordOf(h.Memo(ctx))); err != nil || settled {
		return settled, err
	}
	if t.policy == AtMostOnce {
		err = h.SetMemo(ctx, Record{Slot: t.slot, Token: h.Token()}.encode())
	}
	if end := h.Err(); err == nil && end != nil { // meanwhile another one may have run it
		err = &coord.Error{Op: "once", Line: t.name, Err: end}
	}
	if err != nil {
		t.inert = append(t.inert, h.Token())
	}
	return false, err
}

// Settled reports whether nobody runs a slot any more. That nobody has run it yet is old news at once.
func (j *Job) Settled(ctx context.Context, slot int64) (bool, error) {
	if err := j.check(); err != nil {
		return false, err
	}
	last, err := j.Last(ctx)
	return err == nil && j.settles(last, slot), err
}

// Begin is for programs that hold the job's line themselves, alone: it says whether the slot is settled, and otherwise notes, with
// AtMostOnce, that it begins. Do calls it before fn.
func (j *Job) Begin(ctx context.Context, slot int64, h *coord.Hold) (settled bool, err error) {
	if err := j.check(); err != nil {
		return false, err
	}
	if err := j.checkHold(h); err != nil {
		return false, err
	}
	t := turn{Job: j, slot: slot}
	return t.begin(ctx, h)
}

// End notes that the slot was run, under the hold that it was begun with. Do calls it when fn has returned without an error. With
// AtMostOnce it returns nil even if that fails: nobody runs the slot again in any case.
func (j *Job) End(ctx context.Context, slot int64, h *coord.Hold) error {
	if err := j.checkHold(h); err != nil {
		return err
	}
	err := h.SetMemo(ctx, Record{Slot: slot, Done: true, Token: h.Token()}.encode())
	if j.policy == AtMostOnce {
		return nil
	}
	return err
}

func (j *Job) checkHold(h *coord.Hold) error {
	if h == nil {
		return j.invalid("the hold is nil")
	}
	if n := h.Node(); n.Line != j.name || !rules.Covers(n.Kind, rules.Lock) {
		return j.invalid(fmt.Sprintf("the hold is of %q, as %s: it must have the job's line alone", n.Line, n.Kind))
	}
	return nil
}

func (j *Job) check() error {
	if j.policy != AtMostOnce && j.policy != AtLeastOnce {
		return j.invalid("say once.AtMostOnce or once.AtLeastOnce")
	}
	return nil
}

// Last returns what is noted of the slot that was run last. Its Token is zero if none was.
func (j *Job) Last(ctx context.Context) (Record, error) {
	return j.recordOf(j.client.Memo(ctx, j.name))
}

func (j *Job) recordOf(memo []byte, err error) (Record, error) {
	if err != nil {
		return Record{}, err
	}
	r, ok := decode(memo)
	if !ok {
		return Record{}, &coord.Error{Op: "once", Line: j.name, Err: fmt.Errorf("%w: its memo is not a job's: %.40q", coord.ErrInvalid, memo)}
	}
	return r, nil
}

// settles reports whether nobody runs a slot any more.
func (j *Job) settles(last Record, slot int64) bool {
	switch {
	case last.Token == 0 || last.Slot < slot:
		return false
	case last.Slot > slot:
		return true
	}
	return last.Done || j.policy == AtMostOnce
}

func (j *Job) invalid(why string) error {
	return &coord.Error{Op: "once", Line: j.name, Err: fmt.Errorf("%w: %s", coord.ErrInvalid, why)}
}
