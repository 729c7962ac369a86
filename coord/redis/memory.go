package redis

import (
	"context"

	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register"
)

// Memory returns what this database remembers, as far as that can be known: it is another memory after a restart, after a
// fail-over, and after the database was emptied. A memory outlasts a restart if the server waits for its disk with each
// write (appendonly yes, appendfsync always) and has no replica that could be promoted.
//
// For counts by the server's wall clock, from the time when a mark in the database was written or when the server was started,
// whichever came last. So the first clients that ever use a database wait for the longest TTL: it may be empty because somebody
// has just emptied it. And so does whoever is new after a restart: the server may have found an older file than the one that
// it wrote last, if somebody had switched appendonly off for a while.
func (s *Store) Memory(ctx context.Context) (register.Memory, error) {
	m, err := s.recall(ctx)
	return m, pkg.Failed(ctx, err, "look at the server")
}

// recall finds out what the server remembers, and goes by that from now on.
func (s *Store) recall(ctx context.Context) (register.Memory, error) {
	return s.known.Recall(ctx, func(server.Memory) (server.Memory, error) { return s.server.Recall(ctx) })
}
