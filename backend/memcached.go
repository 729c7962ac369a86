//go:build !turnwise_no_memcached

package backend

import (
	"cmp"
	"context"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/memcached"
)

func init() { services["memcached"] = memcacheds }

func memcacheds(t *target) (connect, error) {
	root, evictions := t.params.text("root"), t.params.yes("evictions")
	host, err := t.address(11211)
	if err := cmp.Or(err, t.noPath(), t.noUser(), t.withLongest()); err != nil {
		return nil, err
	}
	t.forgets = !evictions // else it forgets in silence, and nobody waits
	return func(ctx context.Context, c config) (*coord.Client, error) {
		opts := []memcached.Option{memcached.WithLogger(c.log), memcached.WithClient(c.client...)}
		if c.ttl > 0 {
			opts = append(opts, memcached.WithTTL(c.ttl))
		}
		if c.longest > 0 {
			opts = append(opts, memcached.WithLongestTTL(c.longest))
		}
		if root != "" {
			opts = append(opts, memcached.WithRoot(root))
		}
		if evictions {
			opts = append(opts, memcached.WithEvictions())
		}
		return memcached.Connect(ctx, host, opts...)
	}, nil
}
