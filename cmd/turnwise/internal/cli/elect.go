//go:build linux || darwin

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/election"
)

func electCommand(s *service) *cobra.Command {
	j := newJob(s)
	var value, restart string
	var rank number
	c := &cobra.Command{
		Use:   "elect [flags] NAME [--] COMMAND [ARGUMENT...]",
		Short: "Run a command while this one is the leader",
		Long: "Run a command while this one is the leader of all who stand for NAME. --value is shown to those who ask who leads.\n" +
			"--restart says when to stand again: never, on-failure (the command failed, or the seat was lost), or always.\n" +
			"With --rank it gives way to better candidates: when one stands, the command is ended (see --grace), and this one stands again,\n" +
			"behind all, whatever --restart says. One without a rank gives way to nobody, and counts as one of rank 0.\n" + commandHelp,
		Example: `  turnwise elect --value "$(hostname):8080" --restart always scheduler -- ./scheduler`,
	}
	f := c.Flags()
	f.StringVar(&value, "value", "", "what to `show` to those who ask for the leader")
	f.StringVar(&restart, "restart", "never", "stand again `when` the command has ended: always, on-failure or never")
	f.Var(&rank, "rank", "how much this one should lead, compared with others: the greater the `number` the better; it gives way to better ones")
	completeNames(s, c)
	j.commands(c, func() error {
		if err := checkRestart(restart); err != nil {
			return err
		}
		if len(value) > coord.MaxData {
			return usage("--value has %d bytes, at most %d are allowed", len(value), coord.MaxData)
		}
		j.mode, j.restart = "leader", restart
		j.acquire = func(ctx context.Context, c *coord.Client, try bool) (turn, error) {
			var opts []election.Option
			if try {
				opts = append(opts, election.MaxWait(0))
			}
			ranks := f.Changed("rank")
			if ranks {
				opts = append(opts, election.Rank(int(rank)))
			}
			t, err := election.New(c, j.name, opts...).Campaign(ctx, []byte(value))
			if err != nil {
				return nil, err
			}
			if ranks {
				return ranked{t}, nil
			}
			return t.Hold, nil
		}
		return nil
	})
	return c
}
