//go:build linux || darwin

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/people"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/once"
)

// scheduled is a job that is run once in each slot of a schedule.
type scheduled struct {
	*job
	policy   once.Policy
	missed   once.Missed
	schedule once.Schedule
}

func cronCommand(s *service) *cobra.Command {
	d := &scheduled{job: newJob(s)}
	var most, least bool
	var missed, zone string
	c := &cobra.Command{
		Use:   "cron {--at-most|--at-least} [flags] SCHEDULE NAME [--] COMMAND [ARGUMENT...]",
		Short: "Run a command on a schedule, each time in one place of all",
		Long: "Go on for ever, and run a command whenever SCHEDULE says so, in one place of all that do the same for NAME.\n" +
			"SCHEDULE is a line of cron's five fields, or @hourly, @daily and the like, in UTC unless --zone says otherwise; or @every 90m,\n" +
			"counted from 1970. All must have the same. With --at-most a slot is noted before the command starts, and never run again; with\n" +
			"--at-least when the command has ended with 0, and until the next one begins it is tried again. --missed says what becomes of\n" +
			"slots that began while nobody was there, or while the command still ran: skip them, run the last one, or all.\n" +
			"The command gets the beginning of its slot in TURNWISE_SLOT, such as 2026-11-27T03:00:00Z.\n" + commandHelp,
		Example: `  turnwise cron --at-most '0 3 * * *' nightly -- ./backup.sh     as a service on several machines
  turnwise cron --at-least --missed last '@every 10m' import -- ./import`,
	}
	f := c.Flags()
	f.BoolVar(&most, "at-most", false, "note a slot before the command starts")
	f.BoolVar(&least, "at-least", false, "note a slot when the command has ended with 0")
	f.StringVar(&missed, "missed", "skip", "what becomes of `slots` that were missed: skip, last or all")
	f.StringVar(&zone, "zone", "UTC", "the time `zone` of the schedule, such as Europe/Berlin")
	completeNames(s, c)
	d.runs(c, func(args []string) ([]string, error) {
		var err error
		switch {
		case len(args) == 0:
			return nil, usage("there is no schedule: write SCHEDULE NAME -- COMMAND")
		case most == least:
			return nil, usage("say either --at-most or --at-least")
		}
		if d.policy = once.AtLeastOnce; most {
			d.policy = once.AtMostOnce
		}
		if d.missed = missedWords[missed]; d.missed == 0 {
			return nil, usage("--missed %s: write skip, last or all", coord.Printable(missed))
		}
		d.schedule, err = scheduleOf(args[0], zone)
		return args[1:], err
	}, d.run)
	return c
}

var missedWords = map[string]once.Missed{"skip": once.SkipMissed, "last": once.RunLast, "all": once.RunAll}

// scheduleOf reads a schedule that is the same wherever it is read.
func scheduleOf(text, zone string) (once.Schedule, error) {
	if interval, ok := strings.CutPrefix(text, "@every "); ok {
		var every seconds
		if err := every.Set(strings.TrimSpace(interval)); err != nil || every.Duration < time.Millisecond {
			return nil, usage("%s: a slot lasts a millisecond or more, such as 90s or 24h", coord.Printable(text))
		}
		return once.Every(every.Duration), nil
	}
	at, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" || zone == "" {
		return nil, usage("--zone %s: there is no such time zone, or this machine does not know it", coord.Printable(zone))
	}
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		return nil, usage("%s: name the time zone with --zone", coord.Printable(text))
	}
	parsed, err := cron.ParseStandard(text)
	if err != nil {
		return nil, usage("%s: it is no schedule: %s", coord.Printable(text), coord.Printable(err.Error()))
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, usage("%s: it is no schedule", coord.Printable(text))
	}
	s := placed{*spec, at}
	if s.Next(time.Now()).IsZero() {
		return nil, usage("%s: there is no such day", coord.Printable(text))
	}
	return s, nil
}

// placed is a schedule by the time of a place. Where clocks are set at midnight, or by half an hour, the parser's own reckoning leaves out
// a day or a week, goes back, or says something else when it is asked later. So it only reckons in stretches in which no clock is set.
type placed struct {
	spec cron.SpecSchedule
	at   *time.Location
}

func (p placed) Next(after time.Time) time.Time {
	for in := after.In(p.at); ; {
		_, offset := in.Zone()
		_, end := in.ZoneBounds()
		p.spec.Location = time.FixedZone("", offset)
		next := p.spec.Next(after)
		if end.IsZero() || next.IsZero() || next.Before(end) {
			return next
		}
		in, after = end, end.Add(-1)
	}
}

// run runs one slot after the other until a signal ends it, or what no retry can mend.
func (d *scheduled) run() error {
	d.mode, d.busyCode = "exclusive", codeBusy
	return d.atService(func(w *waiter) error {
		if err := w.heldAround(); err != nil {
			return err
		}
		fatal := make(chan error, 1) // the command may still run
		for {
			over := make(chan error, 1)
			ctx, cancel := w.signals.untilEnd(context.Background())
			go func() { over <- d.slots(ctx, w, fatal) }()
			select {
			case err := <-fatal:
				cancel()
				return err
			case err := <-over:
				cancel()
				if ended := w.signals.ended(); ended != nil || !errors.Is(err, context.Canceled) {
					return errors.Join(ended, err)
				}
			}
		}
	})
}

// slots runs slots until ctx ends.
func (d *scheduled) slots(ctx context.Context, w *waiter, fatal chan<- error) error {
	j := once.New(w.client, d.name, d.policy, once.WithReport(d.tell))
	err := j.Run(ctx, d.schedule, d.missed, func(_ context.Context, slot time.Time, h *coord.Hold) error {
		w.extra = []string{"TURNWISE_SLOT=" + slot.UTC().Format(time.RFC3339)}
		err := d.workLent(w, lent{Hold: h}, fatal)
		// As in job.terms.
		if controlling() < 0 || codeOf(err) != codeSignal+int(syscall.SIGHUP) {
			w.signals.forgive(syscall.SIGHUP)
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		return refused(err)
	}
	return err
}

// tell says what went wrong in a slot, and what was left out before it.
func (d *scheduled) tell(e once.Event) {
	at := e.Slot.UTC().Format(time.RFC3339)
	if !e.Skipped.IsZero() && !d.quiet {
		fmt.Fprintf(people.Err, "turnwise: %q: nobody has run the slots from %s until %s\n", d.name, e.Skipped.UTC().Format(time.RFC3339), at)
	}
	if e.Err == nil || errors.Is(e.Err, errSilent) {
		return
	}
	if e.Slot.IsZero() {
		fmt.Fprintf(people.Err, "turnwise: %q: %s\n", d.name, coord.Printable(e.Err.Error()))
		return
	}
	fmt.Fprintf(people.Err, "turnwise: %q: slot %s: %s\n", d.name, at, coord.Printable(e.Err.Error()))
}
