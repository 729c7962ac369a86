//go:build linux || darwin

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/rwlock"
)

func lockCommand(s *service) *cobra.Command {
	j := newJob(s)
	var shared, exclusive bool
	c := &cobra.Command{
		Use:   "lock [flags] NAME [--] COMMAND [ARGUMENT...]",
		Short: "Run a command while nobody else has the lock of that name",
		Long:  "Run a command while nobody else has the lock of that name, or with -s while nobody has it exclusively.\n" + commandHelp,
		Example: `  turnwise lock nightly-backup -- ./backup.sh
  turnwise lock -n reindex -- ./reindex            not at all if somebody else does
  turnwise lock --with accounts/7 accounts/3 -- ./transfer     both at once
  turnwise lock --ask 'the database moves' nightly -- ./move
  turnwise lock -w 30s -c 'cat a >>b' journal      wait for half a minute; a line for the shell`,
	}
	f := c.Flags()
	f.BoolVarP(&shared, "shared", "s", false, "share it with others who do")
	f.BoolVarP(&exclusive, "exclusive", "x", false, "share it with nobody (as without it)")
	f.BoolVarP(&exclusive, "exclusively", "e", false, "the same")
	_ = f.MarkHidden("exclusively")
	j.askFlag(f)
	f.StringArrayVar(&j.with, "with", nil, "have this lock as well, all or none; may be given several times. Nobody waits in a circle")
	f.StringArrayVar(&j.withShared, "with-shared", nil, "the same, and share it with others who do")
	completeNames(s, c, "with", "with-shared")
	j.commands(c, func() error {
		if shared && exclusive {
			return usage("-s and -x exclude each other")
		}
		if len(j.with)+len(j.withShared) > 0 {
			askForAll(&j.request, shared)
		} else {
			askForLock(&j.request, shared)
		}
		return nil
	})
	return c
}

// askForLock makes the request be for a lock, which it may share with others or not.
func askForLock(r *request, shared bool) {
	r.mode = "exclusive"
	if shared {
		r.mode = "shared"
	}
	r.acquire = func(ctx context.Context, c *coord.Client, try bool) (turn, error) {
		l := rwlock.New(c, r.name, rwlock.Asking(r.ask))
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
