package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/people"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/group"
)

func membersCommand(s *service) *cobra.Command {
	var asJSON, watch bool
	c := &cobra.Command{
		Use:   "members NAME",
		Short: "List the members of a group",
		Long: `List the members of a group: what each says about itself, a line for each, in the order in which they joined. Members are those who
have joined with 'turnwise join', by the library's recipes/group, or who share the lock of that name. A member that says nothing about
itself has an empty line. With --watch the list is printed again whenever it changes, and an empty line stands behind each list;
with --json too, each list is a line. A list is old when you have it: it is for finding others, not for keeping them out.`,
		Example: `  turnwise members web
  turnwise members --watch --json web | while read -r all; do ./route "$all"; done`,
		Args: exactly("NAME"),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON: who they are and what they say")
	c.Flags().BoolVar(&watch, "watch", false, "again whenever that changes, until a signal ends it")
	completeNames(s, c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		ctx, stop := interruptible()
		defer stop()
		return s.look(ctx, func(ctx context.Context, c *coord.Client) error {
			g := group.New(c, args[0])
			if !watch {
				all, err := g.Members(ctx)
				if err != nil {
					return refused(err)
				}
				return printMembers(all, asJSON)
			}
			for v, err := range g.Watch(ctx) {
				switch {
				case err != nil && isFinal(err):
					return refused(err)
				case err != nil:
					fmt.Fprintln(people.Err, text(err))
					continue
				}
				if err := printMembers(v.Members, asJSON); err != nil {
					return err
				}
				if !asJSON {
					if _, err := fmt.Println(); err != nil {
						return unwritten(err)
					}
				}
			}
			return ctx.Err()
		})
	}
	return c
}

func printMembers(all []coord.Node, asJSON bool) error {
	if asJSON {
		members := make([]contender, len(all))
		for i, n := range all {
			members[i] = contenderOf(n)
		}
		return printJSON(members)
	}
	p := &printer{}
	for _, n := range all {
		fmt.Fprintln(p, coord.Printable(string(n.Data)))
	}
	return p.failed
}
