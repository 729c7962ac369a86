//go:build linux || darwin

package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/people"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/once"
)

// slotted is a job that is run once in a slot.
type slotted struct {
	*job
	policy once.Policy
	slot   int64
	dated  bool // the slots are moments, in milliseconds
}

func onceCommand(s *service) *cobra.Command {
	o := &slotted{job: newJob(s)}
	j := o.job
	var every seconds
	var most, least bool
	c := &cobra.Command{
		Use:   "once {--at-most|--at-least} {--slot N|--every TIME} [flags] NAME [--] COMMAND [ARGUMENT...]",
		Short: "Run a command once in a slot, whoever runs it",
		Long: "Run a command unless this slot of NAME, or a later one, was run already, here or anywhere else; then do nothing, and exit with 0.\n" +
			"A slot is a number that grows: --slot 20261126, or the present interval with --every 24h, counted from 1970 in UTC.\n" +
			"With --at-most the slot is noted before the command starts: if it fails, or this machine dies, nobody runs that slot again.\n" +
			"With --at-least it is noted when the command has ended with 0: until then others may run it, and it may run twice.\n" + commandHelp,
		Example: `  turnwise once --at-most --every 24h nightly -- ./backup.sh     from the crontabs of several machines: one of them
  turnwise once --at-least --slot 4711 import -- ./import 4711`,
	}
	f := c.Flags()
	f.BoolVar(&most, "at-most", false, "note the slot before the command starts")
	f.BoolVar(&least, "at-least", false, "note the slot when the command has ended with 0")
	f.Var((*number)(&o.slot), "slot", "the slot's `number`")
	f.Var(&every, "every", "take the present interval of this length as the slot")
	completeNames(s, c)
	j.commands(c, func() error {
		switch {
		case most == least:
			return usage("say either --at-most or --at-least")
		case f.Changed("slot") == every.given:
			return usage("say either --slot or --every")
		case every.given && every.Duration < time.Millisecond:
			return usage("--every: a slot lasts a millisecond or more")
		}
		if o.policy = once.AtLeastOnce; most {
			o.policy = once.AtMostOnce
		}
		if every.given {
			o.dated = true
			o.slot = once.Every(every.Duration).Next(time.Now().Add(-every.Duration)).UnixMilli()
		}
		j.mode, j.once = "exclusive", o
		j.acquire = func(ctx context.Context, c *coord.Client, try bool) (turn, error) {
			m := mutex.New(c, j.name)
			if try {
				return m.TryLock(ctx)
			}
			return m.Lock(ctx)
		}
		return nil
	})
	return c
}

func (o *slotted) at(w *waiter) *once.Job { return once.New(w.client, o.name, o.policy) }

// settled reports whether there is nothing to do, and says so. hold is nil before the wait.
func (o *slotted) settled(w *waiter, hold turn) (settled bool, err error) {
	ctx, cancel := w.signals.untilEnd(context.Background())
	defer cancel()
	if hold == nil {
		settled, err = o.at(w).Settled(ctx, o.slot)
	} else {
		settled, err = o.at(w).Begin(ctx, o.slot, hold.(*coord.Hold))
	}
	if ended := w.signals.ended(); ended != nil {
		return false, ended
	}
	if err != nil {
		return false, refused(err)
	}
	if settled && !o.quiet {
		fmt.Fprintf(people.Err, "turnwise: %q: %s\n", o.name, o.whatIsSettled(ctx, w))
	}
	return settled, nil
}

// said names a slot.
func (o *slotted) said(slot int64) string {
	if !o.dated {
		return fmt.Sprintf("slot %d", slot)
	}
	return fmt.Sprintf("slot %d (from %s)", slot, time.UnixMilli(slot).UTC().Format(time.DateTime+" MST"))
}

func (o *slotted) whatIsSettled(ctx context.Context, w *waiter) string {
	last, err := o.at(w).Last(ctx)
	switch {
	case err != nil, last.Slot == o.slot && last.Done:
		return o.said(o.slot) + " was run already"
	case last.Slot == o.slot:
		return o.said(o.slot) + " has begun already; nobody has said that it went well"
	}
	return fmt.Sprintf("%s is not run any more: %s came after it", o.said(o.slot), o.said(last.Slot))
}

// noteFor is how long the service may take to note that a slot was run.
const noteFor = 10 * time.Second

// ended notes that the command has ended well.
func (o *slotted) ended(w *waiter, hold turn) error {
	ctx, cancel := context.WithTimeout(context.Background(), noteFor)
	defer cancel()
	if err := o.at(w).End(ctx, o.slot, hold.(*coord.Hold)); err != nil {
		return fail(codeUnreachable, "%q: %s was run, and others may run it again, since that could not be noted: %w", o.name, o.said(o.slot), err)
	}
	return nil
}
