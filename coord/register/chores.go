package register

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// chores are what a sweep does again and again, to one register each, of one kind. Somebody may have spoilt a register so that nothing
// can be done to it, or keep it locked, so that whoever asks for it waits. That is no reason to leave the others: each chore has its
// time, and the others are done all the same. Those that failed before come last, and those that fail again and again take up no more
// than a part of the sweeper's time, whoever they are.
type chores struct {
	failed map[string]time.Time // when each of those was tried last that could not be done then
	again  time.Time            // they are left alone until then
}

// mostChore is how many requests' time a chore has. It takes several, and some of them may meet conflicts.
const mostChore = 4

// mostInVain is how many chores' time a round spends on those of a kind that fail. The rest is for the next round: others wait for it.
const mostInVain = 4

// chorePart says that what fails again and again takes up at most one part in chorePart of the time.
const chorePart = 5

// toll is what became of the chores of a round.
type toll struct {
	done   int           // chores that could be done
	fresh  bool          // one has failed that did not fail before
	spent  time.Duration // on those that failed
	err    error         // the first
	denied error         // the last refusal: those are soon known, and may be for other users alone
}

// note takes in why something else could not be done. An error that is about the store as a whole is returned.
func (t *toll) note(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, ErrForgot) {
		return cmp.Or(ctx.Err(), err)
	}
	t.err = cmp.Or(t.err, err)
	return nil
}

// do does the chores to registers with these keys. An error that is about the store as a whole is returned, and ends the round. Any other
// is noted in the toll.
func (c *chores) do(ctx context.Context, d *Driver, keys []string, t *toll, chore func(ctx context.Context, key string) (done bool, err error)) error {
	failed := make(map[string]time.Time)
	before := t.spent
	slices.SortStableFunc(keys, func(a, b string) int { return c.failed[a].Compare(c.failed[b]) })
	for _, key := range keys {
		began := time.Now()
		last, again := c.failed[key]
		if t.spent-before > mostInVain*mostChore*d.timeout || again && began.Before(c.again) {
			if again {
				failed[key] = last
			}
			continue
		}
		done, err := d.chore(ctx, key, chore)
		switch {
		case ctx.Err() != nil || errors.Is(err, ErrForgot):
			return cmp.Or(ctx.Err(), err)
		case errors.Is(err, driver.ErrDenied):
			t.denied = err
			d.saw(err)
		case err != nil:
			spent := time.Since(began)
			failed[key] = time.Now()
			t.spent += spent
			t.fresh = t.fresh || !again
			t.err = cmp.Or(t.err, err)
			if again {
				c.again = time.Now().Add(chorePart * spent)
			}
		case done:
			t.done++
		}
	}
	c.failed = failed
	return nil
}

// chore does one, in its time.
func (d *Driver) chore(ctx context.Context, key string, do func(ctx context.Context, key string) (done bool, err error)) (done bool, err error) {
	cctx, cancel := context.WithTimeout(ctx, mostChore*d.timeout)
	defer cancel()
	done, err = do(cctx, key)
	if err != nil && cctx.Err() != nil && ctx.Err() == nil && !errors.Is(err, ErrForgot) {
		err = errUnanswered // the caller's time is not up
	}
	if err != nil {
		err = fmt.Errorf("sweeping %q: %w", key, err)
	}
	return done, err
}
