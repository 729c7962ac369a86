package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Read is a script: most proxies send those to the master, and a replica refuses it.
func (s *Store) Read(ctx context.Context, key string) (register.Item, error) {
	it, err := s.read(ctx, key)
	return it, pkg.Failed(ctx, err, "read %q", key)
}

func (s *Store) read(ctx context.Context, key string) (register.Item, error) {
	reply, err := s.run(ctx, readScript, []string{s.server.Index(), s.server.Root + key}, nil)
	if err != nil {
		return register.Item{}, err
	}
	return item(key, reply)
}

// item returns what stands in a register, from {it, age, the time}.
func item(key string, reply rueidis.RedisMessage) (register.Item, error) {
	parts, err := reply.ToArray()
	if err != nil || len(parts) != 3 {
		return register.Item{}, fmt.Errorf("%w: %w", server.ErrStrange, err)
	}
	if parts[0].IsNil() {
		return register.Item{Key: key}, nil
	}
	text, err := parts[0].AsBytes()
	if err != nil {
		return register.Item{}, err
	}
	it, err := parse(key, text, server.Micros(parts[1]))
	it.Clock = server.Micros(parts[2])
	return it, err
}

// parse returns what stands in a register, from its bytes.
func parse(key string, text []byte, age time.Duration) (register.Item, error) {
	it := register.Item{Key: key}
	if len(text) < headSize { // we never write so little
		return it, storekit.Denied("something else stands under its key: use another root")
	}
	if len(text) > server.MaxStored { // it is cut off there
		return it, storekit.Denied("what stands under its key is larger than any register")
	}
	copy(it.Version[:], text)
	it.Value, it.Age = text[headSize:], age
	return it, nil
}
