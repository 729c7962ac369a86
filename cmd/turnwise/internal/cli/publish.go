//go:build linux || darwin

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/people"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
	"github.com/turnwise/turnwise/sharedfile"
)

func publishCommand(s *service) *cobra.Command {
	var token int64
	var epoch uint32
	c := &cobra.Command{
		Use:   "publish [flags] FILE [NAME]",
		Short: "Make standard input the new version of a file, unless the token is stale",
		Long: `Make standard input the new version of a file, if the token is that of who has NAME now and nobody with a greater one has written to
the file. Readers find a whole version at FILE at any time, the one before until this one is complete. Exit code 1 says that the
token is stale: nothing was written that anybody will read. A file that is there before the first version is kept as a version;
one that somebody else puts there later is kept in FILE.versions/spared.*, and reported.

Under 'turnwise lock' and after 'turnwise hold' NAME and --token need not be said: the innermost hold at this service counts. All that comes until standard input ends is the
version: if what makes it may fail, let it write to a file of its own first.`,
		Example: `  turnwise lock prices -- sh -c './compute >new && turnwise publish prices.json <new'`,
		Args:    cobra.MatchAll(some("there is no file: write FILE [NAME], and give it the new version on standard input"), atMost(2)),
		RunE: func(c *cobra.Command, args []string) error {
			line, held, err := s.heldLine(args[1:])
			if err != nil {
				return err
			}
			if c.Flags().Changed("token") {
				held = coord.Token(token)
			}
			switch {
			case held == 0 && !c.Flags().Changed("token"):
				return usage("--token says which: %s has no hold of %q at this service", holdsVariable, line)
			case held <= 0:
				return usage("--token %d: no hold has that", held)
			}
			f, err := sharedfile.Open(nil, args[0], sharedfile.Spared(func(kept string) {
				fmt.Fprintf(people.Err, "turnwise: %s was no version of turnwise's: what somebody has put there is now %s\n",
					coord.Printable(args[0]), coord.Printable(kept))
			}))
			if err != nil {
				return unpublished(line, err)
			}
			ctx, stop := interruptible()
			defer stop()
			// The file itself would refuse a token that is too small, but only after its successor has written. One that is too
			// large, which nobody has, would shut out all later writers.
			err = s.look(ctx, func(ctx context.Context, c *coord.Client) error {
				is, err := holds(ctx, c, line, held)
				if err == nil && !is {
					return fail(codeStale, "nobody has %q with the token %d (any more): nothing was written", line, held)
				}
				return err
			})
			if err != nil {
				return err
			}
			err = f.Publish(ctx, fence.Stamp{Epoch: epoch, Token: held}, readInput(ctx))
			return unlessInterrupted(ctx, unpublished(line, err))
		},
	}
	c.Flags().Var((*number)(&token), "token", "the `token` of the hold (default: that of the hold this runs within)")
	c.Flags().Uint32Var(&epoch, "epoch", 0, "raise this `number` when the line moves to another service, where tokens start again")
	completeNames(s, c)
	second := c.ValidArgsFunction
	c.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return second(c, args[1:], begun)
	}
	return c
}

// heldLine returns the line that is meant, and the token of the innermost hold of it that this program runs within; 0:
// there is none. Holds at other services do not count.
func (s *service) heldLine(named []string) (name string, token coord.Token, err error) {
	if len(named) > 0 {
		if err := coord.CheckName(named[0]); err != nil {
			return "", 0, &failure{codeUsage, err}
		}
	}
	to, _, err := s.find()
	if err != nil {
		return "", 0, err
	}
	for _, h := range heldAround(to.ID()) {
		if len(named) == 0 || h.line == named[0] {
			name, token = h.line, h.token
		}
	}
	switch {
	case len(named) > 0:
		return named[0], token, nil
	case name == "":
		return "", 0, usage("there is no name: write FILE NAME, the name of the line that you hold")
	}
	return name, token, nil
}

// readInput copies standard input. It stops when ctx ends, though a read that waits may go on.
func readInput(ctx context.Context) func(io.Writer) error {
	return func(w io.Writer) error {
		if term.IsTerminal(0) {
			fmt.Fprintln(people.Err, "turnwise: type the new version, and Ctrl-D on a line of its own")
		}
		r, typed := io.Pipe()
		go func() {
			_, err := io.Copy(typed, os.Stdin)
			typed.CloseWithError(err)
		}()
		defer context.AfterFunc(ctx, func() { r.CloseWithError(context.Cause(ctx)) })()
		_, err := io.Copy(w, r)
		return err
	}
}

// unpublished gives an error of a shared file its exit code.
func unpublished(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, coord.ErrStale):
		return fail(codeStale, "%q: somebody newer has written: %w", name, err)
	case errors.Is(err, coord.ErrInvalid):
		return &failure{codeUsage, err}
	case errors.Is(err, fs.ErrPermission):
		return &failure{codeDenied, err}
	}
	return &failure{codeUnusable, err}
}
