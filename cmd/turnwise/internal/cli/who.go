package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/file"
)

func whoCommand(s *service) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "who NAME",
		Short: "Show who has a line and who waits in it, in order",
		Long: `Show who has a line and who waits in it, in order. On a directory it also shows for which processes the kernel keeps the line:
the holder, and what its command has started. If the line has a memo it is shown, even if nobody stands there.`,
		Args: exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			ctx, stop := interruptible()
			defer stop()
			return s.look(ctx, func(ctx context.Context, c *coord.Client) error {
				line, err := c.Line(ctx, args[0])
				if err != nil {
					return refused(err)
				}
				memo, err := c.Memo(ctx, args[0])
				if err != nil && !errors.Is(err, coord.ErrDenied) { // it may be a right of its own
					return refused(err)
				}
				all := make([]contender, len(line))
				for i, n := range line {
					all[i] = contenderOf(n)
					all[i].Memo = string(memo)
					if n.Holds {
						all[i].Processes, _ = file.Keepers(c, n) // none on other services
					}
				}
				if asJSON {
					return printJSON(all)
				}
				if len(all) == 0 {
					fmt.Fprintf(os.Stderr, "turnwise: nobody stands in %q\n", args[0])
				}
				if err := printLine(all); err != nil || memo == nil {
					return err
				}
				_, err = fmt.Println("memo: " + shown(string(memo)))
				return unwritten(err)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	completeNames(s, c)
	return c
}

func printLine(all []contender) error {
	if len(all) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	noted := slices.ContainsFunc(all, func(c contender) bool { return c.Turn != nil })
	held := func(text string) string { // a column that is there only if somebody says something in it
		if noted {
			return text + "\t"
		}
		return ""
	}
	fmt.Fprintf(w, "\tWHO\tHAS OR WANTS\tCAME\t%sTOKEN\tID\t\n", held("HELD FOR"))
	for _, c := range all {
		state, came := "waits", ""
		if c.Holds {
			state = "holds"
		}
		if !c.Since.IsZero() {
			came = status.Age(c.Since) + " ago"
		}
		turn := ""
		if c.Turn != nil {
			turn = status.Age(*c.Turn)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s%s\t%s\t%s\n", state, c.who(), c.Mode, came, held(turn), c.Token, coord.Printable(c.ID), c.more())
	}
	return unwritten(w.Flush())
}

// more is what a contender says beside what all do.
func (c contender) more() string {
	var all []string
	if c.Value != "" {
		all = append(all, coord.Printable(strconv.Quote(c.Value)))
	}
	if c.Rank != 0 {
		all = append(all, fmt.Sprint("rank ", c.Rank))
	}
	if c.Asks != "" {
		all = append(all, "asks to let go: "+coord.Printable(c.Asks))
	}
	if len(c.Processes) > 1 {
		all = append(all, "kept by processes "+strings.Trim(fmt.Sprint(c.Processes), "[]"))
	}
	return strings.Join(all, " ")
}
