package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
)

// Store keeps registers in one Redis or Valkey.
type Store struct {
	root     string // what keys begin with
	channels string // what channels begin with
	mark     string // the key that says what the database remembers
	index    string // the key with all registers' keys
	log      *slog.Logger

	conn    *connection
	ears    *ears
	cut     func() // ends the connections of a client that is ours
	release func() // ends that client

	memory atomic.Pointer[string] // the id of the memory that the caller knows
	forgot atomic.Bool            // until the caller has asked for another
}

var _ register.Store = (*Store)(nil)

// maxValue is the largest value. Redis takes 512 MB, but a value holds up everybody else long before it is that large.
const maxValue = 8 << 20

func (s *Store) Read(ctx context.Context, key string) (register.Item, error) {
	it, err := s.read(ctx, key)
	return it, fail("read", key, err)
}

func (s *Store) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	it, err := s.swap(ctx, w)
	return it, fail("swap", w.Key, err)
}

func (s *Store) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	return fail("list", prefix, s.list(ctx, prefix, yield))
}

func (s *Store) Strength() driver.Strength { return strength }

// Close ends the connections, and also a client that Open has made.
func (s *Store) Close() error {
	s.cut()
	s.ears.close()
	s.conn.close()
	s.release()
	return nil
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

func (s *Store) swap(ctx context.Context, w register.Swap) (register.Item, error) {
	if len(w.Value) > maxValue {
		return register.Item{}, fmt.Errorf("%w: it has %d bytes, and %d are the most", register.ErrTooLarge, len(w.Value), maxValue)
	}
	reserve := "0"
	if w.Reserve > 0 && !w.By.IsZero() {
		reserve = strconv.FormatInt(max(1, w.Reserve.Microseconds()), 10)
	}
	args := make([]string, 6, 6+2*len(w.Notes))
	args[1], args[2], args[3], args[4], args[5] = version(w.Old), version(w.Next), string(w.By[:]), reserve, string(w.Value)
	for _, n := range w.Notes {
		args = append(args, s.channels+n.Topic, string(n.Text))
	}
	reply, err := s.run(ctx, swapScript, func(memory string) ([]string, []string) {
		args[0] = memory
		return []string{s.mark, s.index, s.root + w.Key}, args
	})
	if err != nil {
		return register.Item{}, err
	}
	now := register.Item{Key: w.Key}
	if !w.Next.IsZero() {
		now.Value, now.Version = w.Value, w.Next
	}
	if reply.IsInt64() {
		return now, nil
	}
	parts, err := reply.ToArray()
	if err == nil && len(parts) == 1 {
		now.Age = age(parts[0])
		return now, nil
	}
	it, err := item(w.Key, reply)
	if err == nil {
		err = register.ErrConflict
	}
	return it, err
}

// version is how a version is sent: nothing for that of an empty register.
func version(v register.Version) string {
	if v.IsZero() {
		return ""
	}
	return string(v[:])
}

// pageSize is how many registers a listing asks for at once: they may be large, and nobody else is served meanwhile.
const pageSize = 64

func (s *Store) list(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	from, to := "["+s.root+prefix, "("+s.root+prefix+"\xff" // no key has this byte
	for {
		reply, err := s.run(ctx, listScript, func(memory string) ([]string, []string) {
			return []string{s.mark, s.index}, []string{memory, from, to, strconv.Itoa(pageSize)}
		})
		if err != nil {
			return err
		}
		page, err := reply.ToArray()
		if err != nil || len(page)%3 != 1 {
			return fmt.Errorf("%w: %d parts, %w", errStrange, len(page), err)
		}
		for i := 1; i < len(page); i += 3 {
			key, err := page[i].ToString()
			if err != nil {
				return err
			}
			it, err := parse(strings.TrimPrefix(key, s.root), page[i+1], page[i+2])
			if err != nil {
				return err
			}
			if !yield(it) {
				return nil
			}
		}
		if page[0].IsNil() {
			return nil
		}
		last, err := page[0].ToString()
		if err != nil {
			return err
		}
		from = "(" + last
	}
}

// run runs a script that begins with the guard. with returns the script's keys and arguments, given the memory's id.
func (s *Store) run(ctx context.Context, what *script, with func(memory string) (keys, args []string)) (rueidis.RedisMessage, error) {
	for tries := 0; ; tries++ {
		if s.forgot.Load() {
			return rueidis.RedisMessage{}, register.ErrForgot
		}
		known := *s.memory.Load()
		keys, args := with(known)
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
		if now.ID != known && *s.memory.Load() == known {
			s.forgot.Store(true)
			s.log.Warn("redis: the server may have forgotten what it had stored: it was restarted or emptied, or another has taken over",
				"memory", now.ID, "before", known)
		}
	}
}

var errStrange = errors.New("the server's answer is not what was asked for")

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
		return it, fmt.Errorf("something else stands under its key; use another root: %w", driver.ErrDenied)
	}
	copy(it.Version[:], b)
	it.Value, it.Age = b[headSize:], age(since)
	return it, nil
}

// age is never negative, even if the server's clock was set back.
func age(us rueidis.RedisMessage) time.Duration {
	n, _ := us.AsInt64()
	return time.Duration(max(0, n)) * time.Microsecond
}

// fail adds to an error what was done to which key.
func fail(what, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("redis: %s %q: %w", what, key, err)
}
