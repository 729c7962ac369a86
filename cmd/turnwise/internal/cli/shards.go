//go:build linux || darwin

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/people"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/recipes/shards"
)

// sharded is a job of which a part runs for each shard that is this member's.
type sharded struct {
	*job
	count int64
}

func shardsCommand(s *service) *cobra.Command {
	d := &sharded{job: newJob(s)}
	c := &cobra.Command{
		Use:   "shards --count N [flags] NAME [--] COMMAND [ARGUMENT...]",
		Short: "Divide work: run a command for each shard that falls to this one",
		Long: `Go on for ever, and divide the shards of NAME, from 0 to N-1, among all who do the same: the command runs once for each shard that falls
to this one, all side by side. No shard runs in two places: when one moves, since somebody has come or gone, its command gets SIGTERM and,
after --grace, SIGKILL, and it starts in its new place when all that it has started has gone. All have to name the same N.

The command gets the number of its shard in TURNWISE_SHARD, N in TURNWISE_SHARDS, and as TURNWISE_NAME and TURNWISE_TOKEN the lock NAME/SHARD
that it runs under. It has no input, and of the signals it gets USR1 and USR2; all others end this one, and it waits for its commands.
A command that ends with 0 before that has done its shard: nothing more runs for it here. If one fails, all are ended, and this one ends
with its exit code. --restart says otherwise: always, or on-failure, starts it again where it is. The others find this one as a member of
the group NAME/members, with turnwise members.

Exit codes: that of a command that failed; 128+n by signal n; 64 another member counts otherwise, 69 out of reach, 71 a hold was lost before
its command had ended, 77 denied, 78 configuration, 126 and 127 not runnable.`,
		Example: `  turnwise shards --count 16 --restart always orders -- ./consume     on several machines: each has a part of the 16`,
	}
	f := c.Flags()
	f.Var((*number)(&d.count), "count", "how `many` shards there are in all")
	f.StringVar(&d.restart, "restart", "never", "start a command again `when` it has ended: always, on-failure or never")
	completeNames(s, c)
	d.runs(c, func(args []string) ([]string, error) {
		switch {
		case !f.Changed("count"):
			return nil, usage("say how many shards there are: --count")
		case d.count < 1 || d.count > mostShards:
			return nil, usage("--count %d: it must be between 1 and %d", d.count, mostShards)
		}
		return args, checkRestart(d.restart)
	}, d.run)
	return c
}

// mostShards is a bound for slips: each one has a lock of its own, and here perhaps two processes.
const mostShards = 10_000

// run is a member until a signal ends it, a command fails, or what no retry can mend.
func (d *sharded) run() error {
	d.mode = "exclusive"
	if err := toNowhere(os.Stdin); err != nil { // of several commands, none can have the input for itself
		return &failure{codeUnusable, err}
	}
	return d.atService(func(w *waiter) error {
		ctx, cancel := w.signals.untilEnd(context.Background())
		defer cancel()
		over := make(chan error, 1)
		fatal := make(chan error, d.count) // a command may still run
		go func() {
			report := shards.WithReport(func(_ int, err error) { d.say(fmt.Errorf("%w; trying it again", err)) })
			over <- shards.New(w.client, d.name, int(d.count), report).Run(ctx, func(ctx context.Context, shard int, h *coord.Hold) error {
				return d.own(ctx, w.at(d.name, shard, d.count), h, fatal)
			})
		}()
		select {
		case err := <-fatal:
			return err
		case err := <-over:
			var f *failure
			if err != nil && !errors.As(err, &f) {
				err = refused(err)
			}
			return errors.Join(w.signals.ended(), err)
		}
	})
}

// at is the waiter for the command of one shard.
func (w *waiter) at(name string, shard int, count int64) *waiter {
	mine, r := *w, *w.request
	r.name = fmt.Sprintf("%s/%d", name, shard)
	mine.request = &r
	mine.signals = &signals{pass: make(chan os.Signal, 64), other: []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2}}
	mine.extra = []string{"TURNWISE_SHARD=" + strconv.Itoa(shard), fmt.Sprintf("TURNWISE_SHARDS=%d", count)}
	return &mine
}

// own runs the command of a shard, again and again if that is wanted, until ctx ends.
func (d *sharded) own(ctx context.Context, w *waiter, h *coord.Hold, fatal chan<- error) error {
	var retries driverkit.Retries
	for {
		began := time.Now()
		err := d.workLent(w, lent{h, ctx.Done()}, fatal)
		var own *ended
		again := d.again(err) || codeOf(err) == codeStopped && !errors.As(err, &own) // the hold may last after all
		switch {
		case ctx.Err() != nil:
			if err != nil && !silent(err) && !errors.Is(err, errOutranked) {
				d.say(err)
			}
			return ctx.Err()
		case errors.As(err, &own):
			d.say(fmt.Errorf("%q: %w%s", w.name, own, map[bool]string{true: "; starting it again", false: "; ending all"}[again]))
		case err != nil && again:
			d.say(err)
		}
		if !again {
			return err
		}
		select {
		case <-time.After(retries.Next(time.Since(began))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (d *sharded) say(err error) {
	if !d.quiet {
		fmt.Fprintln(people.Err, text(err))
	}
}
