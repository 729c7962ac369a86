package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// maxValue is well below what PostgreSQL can keep in a column and take in a message, which is 1 GB each.
const maxValue = 256 << 20

func (s *Store) Swap(ctx context.Context, w register.Swap) (cur register.Item, err error) {
	if len(w.Value) > maxValue {
		err = fmt.Errorf("%w: %d bytes", register.ErrTooLarge, len(w.Value))
		return register.Item{}, s.table.failed(ctx, err, "swap %q", w.Key)
	}
	change := func() error {
		return s.with(ctx, func(c *pgx.Conn, known *memory) (err error) {
			cur, err = s.swap(ctx, c, known, &w)
			return err
		})
	}
	if err = storekit.Change(change, undone); isState(err, fullQueue) && len(w.Notes) > 0 {
		s.quiet.Do(func() {
			s.Log.Warn("postgres: nobody can be told of a turn, so who waits only looks now and then", "err", s.table.explain(err))
		})
		w.Notes = nil
		err = storekit.Change(change, undone)
	}
	return cur, s.table.failed(ctx, err, "swap %q", w.Key)
}

// swapSQL returns the statement for a swap. An insert names the table's identity, since the register may be absent because
// the table was emptied.
func (s *Store) swapSQL(w *register.Swap, known *memory) (sql string, args []any) {
	key, old, next, by := []byte(w.Key), storekit.Number(w.Old), storekit.Number(w.Next), storekit.Number(w.By)
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
		sql, args = either(tell, s.sql.insertAndTell, s.sql.insert), []any{key, next, value, known.identity}
	case w.Next.IsZero():
		sql, args = either(tell, s.sql.removeAndTell, s.sql.remove), []any{key, old, by}
	default:
		sql, args = either(tell, s.sql.updateAndTell, either(w.Clock, s.sql.updateAndClock, s.sql.update)), []any{key, old, by, next, value}
	}
	if tell {
		channels, notes := known.encode(w.Notes)
		args = append(args, channels, notes)
	}
	return sql, args
}

func either(more bool, with, without string) string {
	if more {
		return with
	}
	return without
}

// swap tries once.
func (s *Store) swap(ctx context.Context, c *pgx.Conn, known *memory, w *register.Swap) (register.Item, error) {
	sql, args := s.swapSQL(w, known)
	if sql != "" {
		now := register.Item{Key: w.Key, Value: w.Value, Version: w.Next}
		var scan func(pgx.Rows) error
		if sql == s.sql.updateAndClock {
			scan = func(r pgx.Rows) error {
				var clock int64
				err := r.Scan(&clock)
				now.Clock = storekit.Micros(clock)
				return err
			}
		}
		n, err := s.run(ctx, c, known, sql, args, scan)
		if err != nil {
			return register.Item{}, err
		}
		if n > 0 {
			return now, nil
		}
	}
	cur, reserved, err := s.obstacle(ctx, c, known, w)
	if err == nil {
		err = storekit.Outcome(w, cur, reserved)
	}
	return cur, err
}

// obstacle returns what is in the way of a swap, and reserves it if that is asked for.
func (s *Store) obstacle(ctx context.Context, c *pgx.Conn, known *memory, w *register.Swap) (cur register.Item, reserved bool, err error) {
	if w.Reserve > 0 && !w.By.IsZero() {
		cur, _, err = s.content(ctx, c, known, s.sql.reserve, w.Key, storekit.Number(w.By), w.Reserve.Microseconds())
		if err != nil || !cur.Version.IsZero() {
			return cur, false, err
		}
	}
	cur, reserved, err = s.content(ctx, c, known, s.sql.read, w.Key, storekit.Number(w.By))
	if err == nil && cur.Version.IsZero() {
		err = s.confirm(ctx, c, known)
	}
	return cur, reserved, err
}
