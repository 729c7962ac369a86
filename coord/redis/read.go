package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

func (s *Store) Read(ctx context.Context, key string) (register.Item, error) {
	it, err := s.read(ctx, key)
	return it, pkg.Failed(ctx, err, "read %q", key)
}

func (s *Store) read(ctx context.Context, key string) (register.Item, error) {
	reply, err := s.run(ctx, readScript, func(memory string) ([]string, []string) {
		return []string{s.mark, s.root + key}, []string{memory}
	})
	if err != nil {
		return register.Item{}, err
	}
	it, err := item(key, reply)
	return it, err
}

// item returns what stands in a register, from {it, age}.
func item(key string, reply rueidis.RedisMessage) (register.Item, error) {
	parts, err := reply.ToArray()
	if err != nil || len(parts) != 2 {
		return register.Item{}, fmt.Errorf("%w: %w", errStrange, err)
	}
	return parse(key, parts[0], parts[1])
}

func parse(key string, text, since rueidis.RedisMessage) (register.Item, error) {
	it := register.Item{Key: key}
	if text.IsNil() {
		return it, nil
	}
	b, err := text.AsBytes()
	if err != nil || len(b) < headSize {
		return it, storekit.Denied("something else stands under its key: use another root")
	}
	copy(it.Version[:], b)
	it.Value, it.Age = b[headSize:], age(since)
	return it, nil
}

// age is never negative, even if the server's clock was set back.
func age(us rueidis.RedisMessage) time.Duration {
	n, _ := us.AsInt64()
	return storekit.Age(n)
}
