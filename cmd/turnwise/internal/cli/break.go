package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
	"github.com/turnwise/turnwise/coord"
)

func breakCommand(s *service) *cobra.Command {
	var ifOlder seconds
	var yes bool
	c := &cobra.Command{
		Use:   "break NAME ID",
		Short: "Take somebody's place in a line away",
		Long: `Take somebody's place in a line away, whoever it is: ID is what 'turnwise who' shows as the ID, the beginning of that, or the token.
It must mean one alone. It shows whom it would throw out, and asks. A command that runs under the hold is killed as soon as its turnwise hears of it; the next one may start before that.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage("write NAME ID, as turnwise who shows them")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := interruptible()
			defer stop()
			return s.look(ctx, func(ctx context.Context, c *coord.Client) error {
				line, err := c.Line(ctx, args[0])
				if err != nil {
					return refused(err)
				}
				n, err := meant(line, args[0], args[1])
				if err != nil {
					return err
				}
				return throwOut(ctx, c, n, ifOlder.Duration, yes)
			})
		},
	}
	c.Flags().Var(&ifOlder, "if-older", "only if it came longer ago than this `time`")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	completeNames(s, c)
	first := c.ValidArgsFunction
	c.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) != 1 {
			return first(c, args, begun)
		}
		return s.complete(func(ctx context.Context, c *coord.Client) (ids []string, err error) {
			line, err := c.Line(ctx, args[0])
			for _, n := range line { // with a description, which shells show beside it
				ids = append(ids, cobra.CompletionWithDesc(n.ID, contenderOf(n).who()))
			}
			return ids, err
		})
	}
	return c
}

// shortest is how much of an ID may stand for it.
const shortest = 4

// meant returns who is meant by an ID, the beginning of one or of its last part, or a token.
func meant(line []coord.Node, name, id string) (n coord.Node, err error) {
	var some []string
	for _, c := range line {
		last := c.ID[strings.LastIndexByte(c.ID, '/')+1:]
		switch begins := len(id) >= shortest && (strings.HasPrefix(c.ID, id) || strings.HasPrefix(last, id)); {
		case c.ID == id:
			return c, nil
		case begins, fmt.Sprint(c.Token) == id:
			n = c
			some = append(some, c.ID)
		}
	}
	switch len(some) {
	case 0:
		return n, fail(1, "nobody in %q has the ID %s (any more)", name, coord.Printable(id))
	case 1:
		return n, nil
	}
	return n, usage("%s may be any of %s", coord.Printable(id), coord.Printable(strings.Join(some, ", ")))
}

// standing says who stands in a line, as what and for how long.
func standing(n coord.Node) string {
	who := contenderOf(n)
	does := "waits"
	if n.Holds {
		does = "holds"
	}
	shown := fmt.Sprintf("%s, who %s %q as %s", who.who(), does, n.Line, who.Mode)
	if !n.Owner.Since.IsZero() {
		shown += " and came " + status.Age(n.Owner.Since) + " ago"
	}
	if n.Holds && !n.Turn.IsZero() {
		shown += ", and has had it for " + status.Age(n.Turn)
	}
	return shown
}

func throwOut(ctx context.Context, c *coord.Client, n coord.Node, ifOlder time.Duration, yes bool) error {
	shown := standing(n)
	if ifOlder > 0 && (n.Owner.Since.IsZero() || time.Since(n.Owner.Since) < ifOlder) {
		return fail(1, "left alone, as it did not come longer than %v ago: %s", ifOlder, shown)
	}
	if !yes {
		if !term.IsTerminal(0) {
			return usage("nobody can be asked here whether to throw out %s: say -y", shown)
		}
		fmt.Fprintf(os.Stderr, "Throw out %s? [y/N] ", shown)
		answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
			return fail(1, "left alone")
		}
	}
	if err := c.Break(ctx, n); err != nil {
		return refused(err)
	}
	fmt.Fprintf(os.Stderr, "turnwise: thrown out: %s\n", shown)
	return nil
}
