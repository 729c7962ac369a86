//go:build linux || darwin

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/coord"
)

func releaseCommand(s *service) *cobra.Command {
	c := &cobra.Command{
		Use:   "release NAME",
		Short: "Give back a lock that 'turnwise hold' has on this machine",
		Args:  exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			ctx, stop := interruptible()
			defer stop()
			return s.look(ctx, func(ctx context.Context, c *coord.Client) error { return release(ctx, c, args[0]) })
		},
	}
	completeNames(s, c)
	return c
}

func release(ctx context.Context, c *coord.Client, name string) error {
	line, err := c.Line(ctx, name)
	if err != nil {
		return refused(err)
	}
	host, _ := os.Hostname()
	var ours []coord.Node
	for _, n := range line {
		if n.Holds && n.Owner.Host == host && isHolder(n.Owner.PID) {
			if fmt.Sprint(n.Token) == os.Getenv(tokenVariable(name)) { // the hold that this shell has
				ours = []coord.Node{n}
				break
			}
			ours = append(ours, n)
		}
	}
	switch {
	case len(ours) == 0:
		return fail(1, "no 'turnwise hold' of yours on this machine has %q", name)
	case len(ours) > 1:
		return fail(1, "%d of 'turnwise hold' have %q: say which by %s", len(ours), name, tokenVariable(name))
	}
	if err := syscall.Kill(ours[0].Owner.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fail(codeDenied, "process %d, which has %q: %w", ours[0].Owner.PID, name, err)
	}
	for ctx.Err() == nil {
		line, err := c.Line(ctx, name)
		if err == nil && !slices.ContainsFunc(line, func(n coord.Node) bool { return n.Token == ours[0].Token }) {
			return nil
		}
		sleep(ctx, 20*time.Millisecond)
	}
	return refused(ctx.Err())
}
