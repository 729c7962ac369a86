package mysql

import (
	"bytes"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

func (s *Store) Swap(ctx context.Context, w register.Swap) (cur register.Item, err error) {
	if most := s.largest.Load(); int64(len(w.Value)) > most {
		return register.Item{}, fmt.Errorf("mysql: swap %q: %w: %d bytes; the server's max_allowed_packet lets through %d",
			w.Key, register.ErrTooLarge, len(w.Value), most)
	}
	for range maxTries {
		err = s.with(ctx, func(c *conn, known *memory) (err error) {
			cur, err = s.swap(ctx, c, known, &w)
			return err
		})
		switch {
		case err == nil:
			return cur, nil
		case errors.Is(err, register.ErrConflict):
			return cur, register.ErrConflict
		case err == errGoneAgain, undone(err):
			continue
		}
		break
	}
	return register.Item{}, s.failed(ctx, "swap", err)
}

// maxTries bounds how often a swap that was certainly not applied is tried again at once.
const maxTries = 20

// errGoneAgain says that what was in the way of a swap has gone.
var errGoneAgain = errors.New("what was in the way of the swap is gone: is there a trigger on the table?")

// swap tries once.
func (s *Store) swap(ctx context.Context, c *conn, known *memory, w *register.Swap) (register.Item, error) {
	key, old, next, by := []byte(w.Key), number(w.Old), number(w.Next), number(w.By)
	value := w.Value
	if value == nil {
		value = []byte{}
	}
	var n int64
	var err error
	switch {
	case w.Old.IsZero() && w.Next.IsZero():
	case w.Old.IsZero():
		n, err = c.exec(ctx, s.sql.insert, key, next, value, known.table, known.number)
	case w.Next.IsZero():
		n, err = c.exec(ctx, s.sql.remove, key, old, by, known.number)
	default:
		n, err = c.exec(ctx, s.sql.update, next, value, key, old, by, known.number)
	}
	if err != nil {
		return register.Item{}, err
	}
	if n > 0 {
		return register.Item{Key: w.Key, Value: w.Value, Version: w.Next}, nil
	}
	if w.Reserve > 0 && !w.By.IsZero() {
		if _, err := c.exec(ctx, s.sql.reserve, by, w.Reserve.Microseconds(), key, by, known.number); err != nil {
			return register.Item{}, err
		}
	}
	cur, reserved, err := s.content(ctx, c, known, w.Key, by)
	switch {
	case err != nil:
		return cur, err
	case cur.Version == w.Next:
		return cur, nil
	case cur.Version == w.Old && !reserved:
		return cur, errGoneAgain
	}
	return cur, register.ErrConflict
}

// content reads a register, and whether it is reserved by somebody else.
func (s *Store) content(ctx context.Context, c *conn, known *memory, key string, by int64) (cur register.Item, reserved bool, err error) {
	cur.Key = key
	err = c.query(ctx, s.sql.read, []any{by, []byte(key)}, func(row []driver.Value) error {
		if integer(row[0]) != known.number || text(row[1]) != known.table {
			return s.forgot(known, fmt.Sprintf("server number %d, %q", integer(row[0]), text(row[1])))
		}
		if row[2] == nil {
			return nil
		}
		cur.Version, cur.Value, cur.Age = versionOf(integer(row[2])), bytesOf(row[3]), ageOf(row[4])
		reserved = integer(row[5]) != 0
		return nil
	})
	return cur, reserved, err
}

// bytesOf copies bytes of an answer, since the next answer overwrites them.
func bytesOf(v driver.Value) []byte {
	if b, ok := v.([]byte); ok {
		return bytes.Clone(b)
	}
	return []byte(text(v))
}

// ageOf is never negative, even if the server's clock was set back.
func ageOf(us driver.Value) time.Duration {
	return time.Duration(max(integer(us), 0)) * time.Microsecond
}

func number(v register.Version) int64 { return int64(binary.BigEndian.Uint64(v[:])) }

func versionOf(n int64) (v register.Version) {
	binary.BigEndian.PutUint64(v[:], uint64(n))
	return v
}
