package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/barrier"
)

func barrierCommand(s *service) *cobra.Command {
	var size int64
	var wait seconds
	c := &cobra.Command{
		Use:   "barrier --size N [flags] NAME",
		Short: "Wait until N have come, then go on together",
		Long: `Wait until N have come to NAME, here or anywhere else, then print the number of the round and go on. All who go on together print the
same number, and the next round has the next one. Who comes too late, or is one too many, waits for the next round. All have to name
the same N. Give a barrier a name of its own, which no lock has.

Who waits and dies is counted until its place is gone. Exit codes: 0 as many have come; 75 with -w: they have not.`,
		Example: `  turnwise barrier --size 3 loaded && ./switch-over     from three machines: each switches over when all three have loaded
  round=$(turnwise barrier --size 3 -w 10m loaded) && ./report "$round"`,
		Args: exactly("NAME"),
	}
	f := c.Flags()
	f.Var((*number)(&size), "size", "how `many` have to come")
	f.VarP(&wait, "wait", "w", "wait no longer than this")
	completeNames(s, c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		switch {
		case !f.Changed("size"):
			return usage("say how many have to come: --size")
		case size < 1 || size > mostAtABarrier:
			return usage("--size %d: it must be between 1 and %d", size, mostAtABarrier)
		case wait.isZero():
			return usage("-w 0: it must be positive, or nobody has time to come")
		}
		ctx, stop := interruptible()
		defer stop()
		if wait.given {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, wait.Duration)
			defer cancel()
		}
		return s.look(ctx, func(ctx context.Context, c *coord.Client) error {
			round, err := barrier.New(c, args[0], int(size)).Wait(ctx)
			switch {
			case wait.given && errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, coord.ErrUnavailable):
				return &failure{codeBusy, err}
			case err != nil:
				return refused(err)
			}
			_, err = fmt.Println(round)
			return unwritten(err)
		})
	}
	return c
}

// mostAtABarrier is a bound for slips: all who wait are looked at whenever one comes.
const mostAtABarrier = 10_000
