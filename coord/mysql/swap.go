package mysql

import (
	"context"
	"fmt"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

func (s *Store) Swap(ctx context.Context, w register.Swap) (cur register.Item, err error) {
	if most := s.largest.Load(); int64(len(w.Value)) > most {
		err = fmt.Errorf("%w: %d bytes; the server's max_allowed_packet lets through %d", register.ErrTooLarge, len(w.Value), most)
		return register.Item{}, s.table.failed(ctx, err, "swap %q", w.Key)
	}
	err = storekit.Change(func() error {
		return s.with(ctx, func(c *conn, known *memory) (err error) {
			cur, err = s.swap(ctx, c, known, &w)
			return err
		})
	}, undone)
	return cur, s.table.failed(ctx, err, "swap %q", w.Key)
}

// swap tries once.
func (s *Store) swap(ctx context.Context, c *conn, known *memory, w *register.Swap) (register.Item, error) {
	key, old, next, by := []byte(w.Key), storekit.Number(w.Old), storekit.Number(w.Next), storekit.Number(w.By)
	value := w.Value
	if value == nil {
		value = []byte{}
	}
	var n, clock int64
	var err error
	switch {
	case w.Old.IsZero() && w.Next.IsZero():
	case w.Old.IsZero():
		n, err = c.exec(ctx, s.sql.insert, key, next, value, known.identity, known.number, known.keeps)
	case w.Next.IsZero():
		n, err = c.exec(ctx, s.sql.remove, key, old, by, known.number, known.keeps)
	case w.Clock:
		n, clock, err = c.execTold(ctx, s.sql.updateAndClock, next, value, key, old, by, known.number, known.keeps)
	default:
		n, err = c.exec(ctx, s.sql.update, next, value, key, old, by, known.number, known.keeps)
	}
	if err != nil {
		return register.Item{}, err
	}
	if n > 0 {
		return register.Item{Key: w.Key, Value: w.Value, Version: w.Next, Clock: storekit.Micros(clock)}, nil
	}
	if w.Reserve > 0 && !w.By.IsZero() {
		if _, err := c.exec(ctx, s.sql.reserve, by, w.Reserve.Microseconds(), key, by, known.number, known.keeps); err != nil {
			return register.Item{}, err
		}
	}
	cur, reserved, err := s.content(ctx, c, known, w.Key, by)
	if err == nil {
		err = storekit.Outcome(w, cur, reserved)
	}
	return cur, err
}
