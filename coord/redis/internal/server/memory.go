package server

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Memory is one stretch of time in which the database has forgotten nothing.
type Memory struct {
	id    string
	lasts time.Duration // so far
}

// IDSize is the length of an ID.
const IDSize = 16

// ID returns what tells memories apart. No two servers have the same.
func (m Memory) ID() string { return m.id }

// For returns for how long the memory has lasted by the server's wall clock.
func (m Memory) For() time.Duration { return m.lasts }

// Recall asks what the server remembers, and has it write a mark if that is unknown.
func (s *Server) Recall(ctx context.Context) (Memory, error) {
	kept := "0"
	if s.keeps(ctx) {
		kept = "1"
	}
	id := register.NewVersion()
	up, err := s.conn.get(ctx)
	if err != nil {
		return Memory{}, explain(err)
	}
	// Sent whole, since a server that has the other scripts already would not notice that the user may not send any.
	reply, err := up.Do(ctx, up.B().Eval().Script(recallScript).Numkeys(1).Key(s.mark).Arg(hex.EncodeToString(id[:]), kept).Build()).ToMessage()
	if err != nil {
		return Memory{}, explain(err)
	}
	if reply.IsInt64() {
		// A client that goes by sentinels is led to the new master by a new connection.
		up.end()
		return Memory{}, ErrReplica
	}
	parts, err := reply.ToArray()
	if err != nil || len(parts) != 3 {
		return Memory{}, fmt.Errorf("%w: %w", ErrStrange, err)
	}
	name, err := parts[0].ToString()
	if err != nil {
		return Memory{}, err
	}
	us, err := parts[1].AsInt64()
	return Memory{name, storekit.Age(us)}, err
}

// keeps reports whether the server has on its disk what it has answered. If we may not ask, it reports false.
func (s *Server) keeps(ctx context.Context) bool {
	up, err := s.conn.get(ctx)
	if err != nil {
		return false
	}
	for setting, want := range map[string]string{"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"} {
		got, err := up.Do(ctx, up.B().ConfigGet().Parameter(setting).Build()).AsStrMap()
		if err != nil || got[setting] != want {
			return false
		}
	}
	return true
}
