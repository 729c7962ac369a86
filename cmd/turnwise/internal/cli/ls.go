package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/coord"
)

func lsCommand(s *service) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List the lines that somebody stands in",
		Args:  atMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			ctx, stop := interruptible()
			defer stop()
			return s.look(ctx, func(ctx context.Context, c *coord.Client) error {
				names, err := c.Lines(ctx, strings.Join(args, ""))
				if err != nil {
					return refused(err)
				}
				if asJSON {
					if names == nil {
						names = []string{}
					}
					return printJSON(names)
				}
				for _, n := range names {
					if _, err := fmt.Println(coord.Printable(n)); err != nil {
						return unwritten(err)
					}
				}
				return nil
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}
