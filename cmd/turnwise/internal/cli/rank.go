//go:build linux || darwin

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/people"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
	"github.com/turnwise/turnwise/recipes/election"
)

// ranked is the term of a candidate who gives way to better ones.
type ranked struct{ *election.Term }

// errOutranked is the end of a command for a better candidate.
var errOutranked = errors.New("the command was ended for a better candidate")

// better returns a channel on which there is something when a better candidate stands, if this one gives way to any, or when the shard
// is to be another member's. People hear before that which candidate it is.
func (s *shift) better(ctx context.Context) <-chan struct{} {
	if h, ok := s.hold.(lent); ok {
		return h.over
	}
	term, gives := s.hold.(ranked)
	if !gives {
		return nil
	}
	stands := make(chan struct{}, 1)
	go func() {
		n, err := term.Better(ctx)
		switch {
		case err == nil:
			if !s.quiet {
				fmt.Fprintf(people.Err, "turnwise: %q: %s is a better candidate (rank %d): ending the command\n", s.name, brief(status.Describe(n)), n.Rank)
			}
			stands <- struct{}{}
		case ctx.Err() == nil && term.Err() == nil:
			fmt.Fprintln(people.Err, text(fmt.Errorf("%q: no better candidate can be seen: %w", s.name, err)))
		}
	}()
	return stands
}
