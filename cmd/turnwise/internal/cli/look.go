//go:build linux || darwin

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/lines"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/top"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/file"
)

// contender is a contender in a line, as --json shows it.
type contender struct {
	*status.Holder
	Kind      string `json:"kind"`
	Mode      string `json:"mode"`
	Holds     bool   `json:"holds"`
	Value     string `json:"value,omitempty"`     // of a candidate
	Processes []int  `json:"processes,omitempty"` // on a directory: the processes that the kernel keeps the line for
}

func contenderOf(n coord.Node) contender {
	return contender{Holder: status.Of(n), Kind: n.Kind, Mode: status.Mode(n.Kind), Holds: n.Holds, Value: string(n.Data)}
}

func printJSON(v any) error {
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	return unwritten(out.Encode(v))
}

// unwritten gives an error of writing to standard output its exit code.
func unwritten(err error) error {
	if err != nil {
		return &failure{codeUnusable, err}
	}
	return nil
}

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

func whoCommand(s *service) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "who NAME",
		Short: "Show who has a line and who waits in it, in order",
		Long: `Show who has a line and who waits in it, in order. On a directory it also shows for which processes the kernel keeps the line:
the holder, and what its command has started.`,
		Args: exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			ctx, stop := interruptible()
			defer stop()
			return s.look(ctx, func(ctx context.Context, c *coord.Client) error {
				line, err := c.Line(ctx, args[0])
				if err != nil {
					return refused(err)
				}
				all := make([]contender, len(line))
				for i, n := range line {
					all[i] = contenderOf(n)
					if n.Holds {
						all[i].Processes, _ = file.Keepers(c, n) // none on other services
					}
				}
				if asJSON {
					return printJSON(all)
				}
				return printLine(all)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	names(s, c)
	return c
}

func printLine(all []contender) error {
	if len(all) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "\tWHO\tHAS OR WANTS\tCAME\tTOKEN\tID\t")
	for _, c := range all {
		state, came, more := "waits", "", ""
		if c.Holds {
			state = "holds"
		}
		if !c.Since.IsZero() {
			came = status.Age(c.Since) + " ago"
		}
		if c.Value != "" {
			more = coord.Printable(strconv.Quote(c.Value))
		}
		if len(c.Processes) > 1 {
			more = strings.TrimSpace(more + " kept by processes " + strings.Trim(fmt.Sprint(c.Processes), "[]"))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", state, c.who(), c.Mode, came, c.Token, coord.Printable(c.ID), more)
	}
	return unwritten(w.Flush())
}

func (c contender) who() string {
	if c.Host == "" {
		return "?"
	}
	text := fmt.Sprintf("%s/%d", coord.Printable(c.Host), c.PID)
	if c.Label != "" {
		text += " " + coord.Printable(strconv.Quote(c.Label))
	}
	return text
}

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
	names(s, c)
	return c
}

// isFinal reports whether a watch ends with an error.
func isFinal(err error) bool {
	code := codeOf(refused(err))
	return code == codeDenied || code == codeUsage
}

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
				is, err := holds(ctx, c, args[0], token)
				if err == nil && !is {
					return fail(1, "%w", errSilent)
				}
				return err
			})
		},
	}
	c.Flags().Int64Var(&token, "token", 0, "the `token`")
	names(s, c)
	return c
}

// holds reports whether a token belongs to somebody who has the line now.
func holds(ctx context.Context, c *coord.Client, name string, token int64) (bool, error) {
	line, err := c.Line(ctx, name)
	if err != nil {
		return false, refused(err)
	}
	return slices.ContainsFunc(line, func(n coord.Node) bool { return n.Holds && int64(n.Token) == token }), nil
}

// names completes the names of lines.
func names(s *service, c *cobra.Command) {
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return s.complete(func(ctx context.Context, c *coord.Client) ([]string, error) { return c.Lines(ctx, begun) })
	}
}

// complete asks the service for completions. There are none if the service does not answer at once.
func (s *service) complete(ask func(ctx context.Context, c *coord.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	found := make(chan []string, 1)
	go func() {
		defer close(found)
		ctx, cancel := context.WithTimeout(context.Background(), completeFor)
		defer cancel()
		_ = s.look(ctx, func(ctx context.Context, c *coord.Client) error {
			all, err := ask(ctx, c)
			found <- all
			return err
		})
	}()
	select {
	case all := <-found:
		return all, cobra.ShellCompDirectiveNoFileComp
	case <-time.After(completeFor):
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFor is how long Tab may take at most.
const completeFor = 200 * time.Millisecond

// exactly demands one argument; what says what that is.
func exactly(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usage("there is no %s", strings.ToLower(what))
		case len(args) > 1:
			return usage("%s is one argument too many", coord.Printable(args[1]))
		}
		return nil
	}
}

func atMost(n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > n {
			return usage("%s is one argument too many", coord.Printable(args[n]))
		}
		return nil
	}
}
