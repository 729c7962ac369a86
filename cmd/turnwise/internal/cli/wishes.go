//go:build linux || darwin

package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/recipes/semaphore"
)

const commandHelp = `
The command gets the terminal, its name, mode and fencing token in TURNWISE_NAME, TURNWISE_MODE and TURNWISE_TOKEN, and all
signals. The line is given back when the command and all that it has started is gone. If the hold is in danger they are ended
before it is lost. Exit codes: the command's own; 128+n for signal n; 64 usage, 69 out of reach, 70 lost and stopped in time,
71 lost, 73 unusable, 75 somebody has it, 76 taken away by an operator, 77 denied, 78 configuration, 126 and 127 not runnable.`

func lockCommand(s *service) *cobra.Command {
	j := newJob(s)
	var shared, exclusive bool
	c := &cobra.Command{
		Use:   "lock [flags] NAME [--] COMMAND [ARGUMENT...]",
		Short: "Run a command while nobody else has the lock of that name",
		Long:  "Run a command while nobody else has the lock of that name, or with -s while nobody has it exclusively.\n" + commandHelp,
		Example: `  turnwise lock nightly-backup -- ./backup.sh
  turnwise lock -n reindex -- ./reindex            not at all if somebody else does
  turnwise lock -w 30s -c 'cat a >>b' journal      wait for half a minute; a line for the shell`,
	}
	f := c.Flags()
	f.BoolVarP(&shared, "shared", "s", false, "share it with others who do")
	f.BoolVarP(&exclusive, "exclusive", "x", false, "share it with nobody (as without it)")
	f.BoolVarP(&exclusive, "exclusively", "e", false, "the same")
	_ = f.MarkHidden("exclusively")
	names(s, c)
	j.commands(c, func() error {
		if shared && exclusive {
			return usage("-s and -x exclude each other")
		}
		j.lock(shared)
		return nil
	})
	return c
}

// lock makes the job want a lock, which it may share with others or not.
func (j *job) lock(shared bool) {
	j.mode = "exclusive"
	if shared {
		j.mode = "shared"
	}
	j.acquire = func(ctx context.Context, c *coord.Client, try bool) (*coord.Hold, error) {
		l := rwlock.New(c, j.name)
		switch {
		case shared && try:
			return l.TryRLock(ctx)
		case shared:
			return l.RLock(ctx)
		case try:
			return l.TryLock(ctx)
		}
		return l.Lock(ctx)
	}
}

func semCommand(s *service) *cobra.Command {
	j := newJob(s)
	var permits, weight int64
	c := &cobra.Command{
		Use:   "sem --permits N [flags] NAME [--] COMMAND [ARGUMENT...]",
		Short: "Run a command while it has one of several permits",
		Long: "Run a command while it has one of several permits, or as many as --weight says. All who use the name should say the same\n" +
			"number of permits; while they do not, the smallest counts.\n" + commandHelp,
		Example: "  turnwise sem --permits 3 downloads -- ./fetch",
	}
	c.Flags().Int64Var(&permits, "permits", 0, "how `many` there are")
	c.Flags().Int64Var(&weight, "weight", 1, "how `many` the command takes")
	names(s, c)
	j.commands(c, func() error {
		switch {
		case permits <= 0:
			return usage("--permits says how many there are: at least 1")
		case weight <= 0 || weight > permits:
			return usage("--weight %d: it must be from 1 to the %d permits that there are", weight, permits)
		}
		j.mode, j.several = "permits", true
		j.acquire = func(ctx context.Context, c *coord.Client, try bool) (*coord.Hold, error) {
			s := semaphore.New(c, j.name, permits)
			if try {
				return s.TryAcquire(ctx, weight)
			}
			return s.Acquire(ctx, weight)
		}
		return nil
	})
	return c
}

func electCommand(s *service) *cobra.Command {
	j := newJob(s)
	var value, restart string
	c := &cobra.Command{
		Use:   "elect [flags] NAME [--] COMMAND [ARGUMENT...]",
		Short: "Run a command while this one is the leader",
		Long: "Run a command while this one is the leader of all who stand for NAME. --value is shown to those who ask who leads.\n" +
			"--restart says when to stand again: never, on-failure (the command failed, or the seat was lost), or always.\n" + commandHelp,
		Example: `  turnwise elect --value "$(hostname):8080" --restart always scheduler -- ./scheduler`,
	}
	c.Flags().StringVar(&value, "value", "", "what to `show` to those who ask for the leader")
	c.Flags().StringVar(&restart, "restart", "never", "stand again `when` the command has ended: always, on-failure or never")
	names(s, c)
	j.commands(c, func() error {
		switch restart {
		case "never", "on-failure", "always":
		default:
			return usage("--restart %s: write always, on-failure or never", coord.Printable(restart))
		}
		if len(value) > coord.MaxData {
			return usage("--value has %d bytes, at most %d are allowed", len(value), coord.MaxData)
		}
		j.mode, j.restart = "leader", restart
		j.acquire = func(ctx context.Context, c *coord.Client, try bool) (*coord.Hold, error) {
			var opts []election.Option
			if try {
				opts = append(opts, election.MaxWait(0))
			}
			t, err := election.New(c, j.name, opts...).Campaign(ctx, []byte(value))
			if err != nil {
				return nil, err
			}
			return t.Hold, nil
		}
		return nil
	})
	return c
}

// seconds is a duration that may be written as a bare number of seconds, as for flock(1).
type seconds struct{ time.Duration }

func (s *seconds) Set(text string) error {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		if n < 0 || n > 1e9 {
			return fmt.Errorf("%s seconds: write a number from 0 on, or a duration such as 30s", text)
		}
		s.Duration = time.Duration(n * float64(time.Second))
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return fmt.Errorf("write seconds, or a duration such as 30s")
	}
	s.Duration = d
	return nil
}

func (s *seconds) Type() string { return "duration" }

// String returns what help shows as the default; nothing if there is none.
func (s *seconds) String() string {
	if s.Duration == 0 {
		return ""
	}
	return s.Duration.String()
}
