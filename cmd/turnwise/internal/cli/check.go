package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/coord"
)

func checkCommand(s *service) *cobra.Command {
	var token int64
	c := &cobra.Command{
		Use:   "check NAME --token N",
		Short: "Ask whether a token is that of who has the line now",
		Long: `Ask whether a token is that of who has the line now: exit code 0 if so, 1 if not, 69 if it cannot be told. By the time you look
at the answer it may be different: to be safe, let what is written to refuse smaller tokens.`,
		Args: exactly("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("token") {
				return usage("--token says which: the command's TURNWISE_TOKEN")
			}
			ctx, stop := interruptible()
			defer stop()
			return s.look(ctx, func(ctx context.Context, c *coord.Client) error {
				is, err := holds(ctx, c, args[0], coord.Token(token))
				if err == nil && !is {
					return fail(1, "%w", errSilent)
				}
				return err
			})
		},
	}
	c.Flags().Var((*number)(&token), "token", "the `token`")
	completeNames(s, c)
	return c
}

// holds reports whether a token belongs to somebody who has the line now.
func holds(ctx context.Context, c *coord.Client, name string, token coord.Token) (bool, error) {
	line, err := c.Line(ctx, name)
	if err != nil {
		return false, refused(err)
	}
	return slices.ContainsFunc(line, func(n coord.Node) bool { return n.Holds && n.Token == token }), nil
}
