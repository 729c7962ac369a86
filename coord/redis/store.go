package redis

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Store keeps registers in one Redis or Valkey.
type Store struct {
	config
	channels string // what channels begin with
	mark     string // the key that says what the database remembers
	index    string // the key with all registers' keys

	conn    *connection
	ears    *ears
	cut     func() // ends the connections of a client that is ours
	release func() // ends that client

	known *storekit.Known[*memory]
}

var _ register.Store = (*Store)(nil)

func (s *Store) Strength() driver.Strength { return strength }

// Close ends the connections, and also a client that Open has made.
func (s *Store) Close() error {
	s.cut()
	s.ears.close()
	s.conn.close()
	s.release()
	return nil
}

// run runs a script that begins with the guard. with returns the script's keys and arguments, given the memory's id.
func (s *Store) run(ctx context.Context, what *script, with func(memory string) (keys, args []string)) (rueidis.RedisMessage, error) {
	for tries := 0; ; tries++ {
		known, err := s.known.Memory()
		if err != nil {
			return rueidis.RedisMessage{}, err
		}
		keys, args := with(known.id)
		reply, err := s.conn.run(ctx, what, keys, args)
		if err != nil {
			return reply, explain(err)
		}
		if n, err := reply.AsInt64(); !reply.IsInt64() || err != nil || n != 0 {
			return reply, nil
		}
		// Nothing was done.
		if tries == 3 {
			return reply, errors.New("what the server remembers changes all the time")
		}
		now, err := s.recall(ctx)
		if err != nil {
			return reply, err
		}
		if now.id != known.id && s.known.Forget(known) {
			s.Log.Warn("redis: the server may have forgotten what it had stored: it was restarted or emptied, or another has taken over",
				"was", known.id, "is", now.id)
		}
	}
}
