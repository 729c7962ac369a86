package cli

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/lines"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/top"
	"github.com/turnwise/turnwise/coord"
)

func topCommand(s *service) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "top [PREFIX]",
		Short: "Show all lines, and follow them",
		Long: `Show all lines, or those whose names begin with PREFIX: who has them, who waits, and for how long. On a terminal it is redrawn
in place: q ends it, the arrows move, / filters, Enter opens a line and Esc leaves it. Elsewhere it writes a line at each change.`,
		Args: atMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			ctx, stop := interruptible()
			defer stop()
			return s.stay(ctx, func(ctx context.Context, c *coord.Client, at string) error {
				survey := lines.New(c, at, strings.Join(args, ""), lines.Many)
				if !asJSON && canDraw() {
					return drawn(top.Show(ctx, survey, ""))
				}
				return top.Print(ctx, survey, os.Stdout, os.Stderr, asJSON)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as a line of JSON at each change")
	return c
}
