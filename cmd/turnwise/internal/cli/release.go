//go:build linux || darwin

package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/coord"
)

func releaseCommand(s *service) *cobra.Command {
	var token int64
	c := &cobra.Command{
		Use:   "release NAME",
		Short: "Give back a lock that 'turnwise hold' has on this machine",
		Long: `Give back a lock that a 'turnwise hold' of yours has on this machine, at this service. If several have it, that of this shell is
meant, or the one that --token says. The holder itself is asked what it has; no process gets a signal.`,
		Args: exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := coord.CheckName(args[0]); err != nil {
				return &failure{codeUsage, err}
			}
			to, _, err := s.find()
			if err != nil {
				return err
			}
			ctx, stop := interruptible()
			defer stop()
			return unlessInterrupted(ctx, release(ctx, held{args[0], to.ID(), coord.Token(token)}))
		},
	}
	c.Flags().Var((*number)(&token), "token", "the `token` of the hold")
	completeNames(s, c)
	return c
}

// release asks the holder of a line to release it. Without a token, the hold that this shell has counts, or the only one.
func release(ctx context.Context, h held) error {
	all, mute := visitAll(ctx, h.line, h.service)
	defer func() {
		for _, v := range all {
			v.conn.Close()
		}
	}()
	var ours []*visit
	for _, v := range all {
		if v.Line == h.line && v.Service == h.service && (h.token == 0 || v.Token == h.token) {
			ours = append(ours, v)
		}
	}
	if len(ours) > 1 {
		around := heldAround(h.service)
		for _, v := range ours {
			if slices.ContainsFunc(around, func(a held) bool { return a.line == h.line && a.token == v.Token }) {
				ours = []*visit{v}
				break
			}
		}
	}
	switch {
	case len(ours) == 1:
		return ours[0].release(ctx)
	case len(ours) > 1:
		return fail(1, "%d of 'turnwise hold' have %q: say which with --token", len(ours), h.line)
	case mute > 0:
		return fail(codeUnreachable, "no 'turnwise hold' that answers has %q, and %d do not answer", h.line, mute)
	}
	return fail(1, "no 'turnwise hold' of yours on this machine has %q", h.line)
}
