package cli

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/coord"
)

func memoCommand(s *service) *cobra.Command {
	var asJSON, forget bool
	c := &cobra.Command{
		Use:   "memo NAME",
		Short: "Show the memo of a line: what turnwise once has noted there",
		Long: `Show the memo of a line: a small value that its holder writes and that stays, such as the slot that turnwise once has noted last.
Nothing is shown if there is none. With --forget it is taken away, whoever has the line: then a slot may be run once more.`,
		Args: exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			ctx, stop := interruptible()
			defer stop()
			return s.look(ctx, func(ctx context.Context, c *coord.Client) error {
				memo, err := c.Memo(ctx, args[0])
				if err == nil && forget {
					err = c.Forget(ctx, args[0])
				}
				if err != nil {
					return refused(err)
				}
				switch {
				case asJSON && memo == nil:
					return printJSON(nil)
				case asJSON:
					return printJSON(string(memo))
				case memo == nil:
					fmt.Fprintf(os.Stderr, "turnwise: %q has no memo\n", args[0])
					return nil
				}
				_, err = fmt.Println(shown(string(memo)))
				return unwritten(err)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.Flags().BoolVar(&forget, "forget", false, "take it away, and show what it was")
	completeNames(s, c)
	return c
}

// shown is a memo as it is, if it can be shown so.
func shown(memo string) string {
	if text := coord.Printable(memo); text == memo {
		return text
	}
	return coord.Printable(strconv.Quote(memo))
}
