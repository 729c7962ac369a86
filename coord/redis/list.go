package redis

import (
	"context"
	"time"

	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register"
)

// List takes a page at a time, and nobody waits at the server while yield is called.
func (s *Store) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	err := s.server.List(ctx, s.known, prefix, server.Layout{Time: timeAt, Gone: -1}, func(key string, text []byte, age time.Duration) (bool, error) {
		it, err := parse(key, text, age)
		return err != nil || yield(it), nil // what is strange is left out, as it is by the server
	})
	return pkg.Failed(ctx, err, "list %q", prefix)
}
