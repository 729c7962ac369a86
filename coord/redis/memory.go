package redis

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Memory returns what this database remembers, as far as that can be known: it is another memory after a restart, after a
// fail-over, and after the database was emptied. A memory outlasts a restart if the server waits for its disk with each
// write (appendonly yes, appendfsync always) and has no replica that could be promoted.
//
// For counts by the server's wall clock, from the time when a mark in the database was written or, after a restart, from the
// restart. So the first clients that ever use a database wait for a TTL as well: it may be empty because somebody has just
// emptied it.
func (s *Store) Memory(ctx context.Context) (register.Memory, error) {
	m, err := s.remember(ctx)
	return m, pkg.Failed(ctx, err, "look at the server")
}

// remember recalls what the server remembers, and goes by that from now on.
func (s *Store) remember(ctx context.Context) (register.Memory, error) {
	return s.known.Recall(ctx, func(*memory) (*memory, error) { return s.recall(ctx) })
}

// memory is one stretch of time in which the database has forgotten nothing.
type memory struct {
	id    string
	lasts time.Duration
}

func (m *memory) ID() string         { return m.id }
func (m *memory) For() time.Duration { return m.lasts }

// recall asks what the server remembers, and has it write a mark if that is unknown.
func (s *Store) recall(ctx context.Context) (*memory, error) {
	kept := "0"
	if s.keeps(ctx) {
		kept = "1"
	}
	id := register.NewVersion()
	up, err := s.conn.get(ctx)
	if err != nil {
		return nil, explain(err)
	}
	reply, err := up.Do(ctx, up.B().Eval().Script(recallScript).Numkeys(1).Key(s.mark).Arg(hex.EncodeToString(id[:]), kept).Build()).ToMessage()
	if err != nil {
		return nil, explain(err)
	}
	if reply.IsInt64() {
		// A client that goes by sentinels is led to the new master by a new connection.
		up.end()
		return nil, errReplica
	}
	parts, err := reply.ToArray()
	if err != nil || len(parts) != 3 {
		return nil, fmt.Errorf("%w: %w", errStrange, err)
	}
	name, err := parts[0].ToString()
	if err != nil {
		return nil, err
	}
	us, err := parts[1].AsInt64()
	return &memory{name, storekit.Age(us)}, err
}

// keeps reports whether the server has on its disk what it has answered. If we may not ask, it reports false.
func (s *Store) keeps(ctx context.Context) bool {
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
