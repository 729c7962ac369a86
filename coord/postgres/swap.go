package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnwise/turnwise/coord/register"
)

// maxValue is well below what PostgreSQL can keep in a column and take in a message, which is 1 GB each.
const maxValue = 256 << 20

func (s *Store) Swap(ctx context.Context, w register.Swap) (cur register.Item, err error) {
	if len(w.Value) > maxValue {
		return register.Item{}, fmt.Errorf("postgres: swap %q: %w: %d bytes", w.Key, register.ErrTooLarge, len(w.Value))
	}
	for range maxTries {
		err = s.with(ctx, func(c *pgx.Conn, known *memory) (err error) {
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
var errGoneAgain = errors.New("what was in the way of the swap is gone: is there a rule or a trigger on the table?")

// swapSQL returns the statement for a swap. An insert names the table's identity, since the register may be absent because
// the table was emptied.
func (s *Store) swapSQL(w *register.Swap, known *memory) (sql string, args []any) {
	key, old, next, by := []byte(w.Key), number(w.Old), number(w.Next), number(w.By)
	value := w.Value
	if value == nil {
		value = []byte{}
	}
	tell := len(w.Notes) > 0
	switch {
	case w.Old.IsZero() && w.Next.IsZero():
		if tell {
			sql, args = s.sql.mereNotes, []any{key}
		}
	case w.Old.IsZero():
		sql, args = either(tell, s.sql.insertAndTell, s.sql.insert), []any{key, next, value, known.table}
	case w.Next.IsZero():
		sql, args = either(tell, s.sql.removeAndTell, s.sql.remove), []any{key, old, by}
	default:
		sql, args = either(tell, s.sql.updateAndTell, s.sql.update), []any{key, old, by, next, value}
	}
	if tell {
		channels, notes := known.encode(w.Notes)
		args = append(args, channels, notes)
	}
	return sql, args
}

func either(tell bool, with, without string) string {
	if tell {
		return with
	}
	return without
}

// swap tries once.
func (s *Store) swap(ctx context.Context, c *pgx.Conn, known *memory, w *register.Swap) (register.Item, error) {
	sql, args := s.swapSQL(w, known)
	if sql != "" {
		n, err := s.run(ctx, c, known, sql, args, nil)
		if err != nil {
			return register.Item{}, err
		}
		if n > 0 {
			return register.Item{Key: w.Key, Value: w.Value, Version: w.Next}, nil
		}
	}
	cur, reserved, err := s.standing(ctx, c, known, w)
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

// standing returns what is in the way of a swap, and reserves it if that is asked for.
func (s *Store) standing(ctx context.Context, c *pgx.Conn, known *memory, w *register.Swap) (cur register.Item, reserved bool, err error) {
	if w.Reserve > 0 && !w.By.IsZero() {
		cur, _, err = s.content(ctx, c, known, s.sql.reserve, w.Key, number(w.By), w.Reserve.Microseconds())
		if err != nil || !cur.Version.IsZero() {
			return cur, false, err
		}
	}
	cur, reserved, err = s.content(ctx, c, known, s.sql.read, w.Key, number(w.By))
	if err == nil && cur.Version.IsZero() {
		err = s.confirm(ctx, c, known)
	}
	return cur, reserved, err
}

// content runs a statement that returns a register, or nothing.
func (s *Store) content(ctx context.Context, c *pgx.Conn, known *memory, sql, key string, args ...any) (cur register.Item, reserved bool, err error) {
	cur.Key = key
	_, err = s.run(ctx, c, known, sql, append([]any{[]byte(key)}, args...), func(r pgx.Rows) error {
		var version, age int64
		if err := r.Scan(&version, &cur.Value, &age, &reserved); err != nil {
			return err
		}
		cur.Version, cur.Age = versionOf(version), ageOf(age)
		return nil
	})
	return cur, reserved, err
}

// ageOf is never negative, even if the server's clock was set back.
func ageOf(us int64) time.Duration { return time.Duration(max(us, 0)) * time.Microsecond }

// confirm is called when nothing was found: the table may have been emptied, or created again.
func (s *Store) confirm(ctx context.Context, c *pgx.Conn, known *memory) error {
	found := false
	_, err := s.run(ctx, c, known, s.sql.first, nil, func(r pgx.Rows) error {
		var table string
		err := r.Scan(&table)
		found = table == known.table
		return err
	})
	if err == nil && !found {
		s.forgot(known, &memory{id: "another table"})
		err = register.ErrForgot
	}
	return err
}
