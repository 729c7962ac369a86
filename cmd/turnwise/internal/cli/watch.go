package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/lines"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/top"
	"github.com/turnwise/turnwise/coord"
)

func watchCommand(s *service) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "watch NAME",
		Short: "Say who has a line, and again whenever that changes",
		Long: `Say who has a line, and again whenever that changes. On a terminal the whole line is shown, and redrawn in place: q ends that,
the arrows scroll.`,
		Args: exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			ctx, stop := interruptible()
			defer stop()
			if err := coord.CheckName(args[0]); err != nil {
				return refused(err)
			}
			if !asJSON && canDraw() {
				return s.stay(ctx, func(ctx context.Context, c *coord.Client, at string) error {
					return drawn(top.Show(ctx, lines.NewOfOne(c, at, args[0]), args[0]))
				})
			}
			return s.look(ctx, func(ctx context.Context, c *coord.Client) error {
				for n, err := range c.Watch(ctx, args[0]) {
					now := time.Now()
					switch {
					case err != nil && isFinal(err):
						return refused(err)
					case err != nil && asJSON:
						_ = printJSON(map[string]any{"time": now, "error": err.Error()})
					case err != nil:
						fmt.Fprintln(os.Stderr, text(err))
					case asJSON && n.ID == "":
						_ = printJSON(map[string]any{"time": now, "holder": nil})
					case asJSON:
						_ = printJSON(map[string]any{"time": now, "holder": contenderOf(n)})
					case n.ID == "":
						fmt.Println(now.Format(time.TimeOnly), "nobody")
					default:
						h := contenderOf(n)
						fmt.Println(now.Format(time.TimeOnly), h.who(), "as", h.Mode, "with token", h.Token)
					}
				}
				return nil
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as a line of JSON each time")
	completeNames(s, c)
	return c
}

// isFinal reports whether a watch ends with an error.
func isFinal(err error) bool {
	code := codeOf(refused(err))
	return code == codeDenied || code == codeUsage
}
