//go:build linux || darwin

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/semaphore"
)

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
	j.askFlag(c.Flags())
	completeNames(s, c)
	j.commands(c, func() error {
		switch {
		case permits <= 0:
			return usage("--permits says how many there are: at least 1")
		case weight <= 0 || weight > permits:
			return usage("--weight %d: it must be from 1 to the %d permits that there are", weight, permits)
		}
		j.mode, j.several = "permits", true
		j.acquire = func(ctx context.Context, c *coord.Client, try bool) (turn, error) {
			s := semaphore.New(c, j.name, permits, semaphore.Asking(j.ask))
			if try {
				return s.TryAcquire(ctx, weight)
			}
			return s.Acquire(ctx, weight)
		}
		return nil
	})
	return c
}
