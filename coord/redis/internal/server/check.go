package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/turnwise/turnwise/coord/register"
)

// Check finds out whether the server can, and the user may, do all that is needed later.
func (s *Server) Check(ctx context.Context) error {
	err := s.Inspect(ctx)
	if err == nil {
		var m Memory
		if m, err = s.Recall(ctx); err == nil {
			err = s.Rehearse(ctx, m)
		}
	}
	// Neither side of a connection says so when only one of them speaks TLS: each waits for the other.
	if err == nil || !errors.Is(err, ctx.Err()) || !s.reached.Load() {
		return err
	}
	tls := "it speaks TLS (rediss://)"
	if s.secure {
		tls = "it does not speak TLS (redis://)"
	}
	return fmt.Errorf("a connection is accepted and nothing answers: the server is frozen, or %s: %w", tls, err)
}

// Rehearse does once, in one script, all that other scripts do later. So what the user may not do is said now, and a server
// that does something else than Redis would is found out.
func (s *Server) Rehearse(ctx context.Context, m Memory) error {
	nobodys := register.NewVersion()
	name := "rehearsal/" + hex.EncodeToString(nobodys[:])
	reply, err := s.RunIn(ctx, m, rehearsalScript, []string{s.index, s.Root + name}, []string{name, s.Channel(name)})
	if err != nil {
		return err
	}
	got, err := reply.AsStrSlice()
	if err != nil || !slices.Equal(got, []string{name, s.Root + name}) {
		return fmt.Errorf("%w: %q, %w instead of what was written", ErrStrange, got, err)
	}
	return nil
}
