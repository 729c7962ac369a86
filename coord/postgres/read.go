package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

func (s *Store) Read(ctx context.Context, key string) (register.Item, error) {
	cur, err := s.current(ctx, key)
	return cur, s.table.failed(ctx, err, "read %q", key)
}

func (s *Store) current(ctx context.Context, key string) (cur register.Item, err error) {
	err = s.query(ctx, func(c *pgx.Conn, known *memory) (err error) {
		cur, _, err = s.content(ctx, c, known, s.sql.read, key, int64(0))
		if err == nil && cur.Version.IsZero() {
			err = s.confirm(ctx, c, known)
		}
		return err
	})
	return cur, err
}

// content runs a statement that returns a register, or nothing. It takes in how far the server's log has come: who only
// reads sees by that whether a server has come back with an older disk.
func (s *Store) content(ctx context.Context, c *pgx.Conn, known *memory, sql, key string, args ...any) (cur register.Item, reserved bool, err error) {
	cur.Key = key
	_, err = s.run(ctx, c, known, sql, append([]any{[]byte(key)}, args...), func(r pgx.Rows) error {
		var version, age, clock, lsn int64
		if err := r.Scan(&version, &cur.Value, &age, &clock, &lsn, &reserved); err != nil {
			return err
		}
		known.reached.Saw(lsn)
		cur.Version, cur.Age, cur.Clock = storekit.Version(version), storekit.Micros(age), storekit.Micros(clock)
		return nil
	})
	return cur, reserved, err
}

// confirm is called when nothing was found: the table may have been emptied, or created again.
func (s *Store) confirm(ctx context.Context, c *pgx.Conn, known *memory) error {
	found := false
	_, err := s.run(ctx, c, known, s.sql.first, nil, func(r pgx.Rows) error {
		var identity string
		err := r.Scan(&identity)
		found = identity == known.identity
		return err
	})
	if err == nil && !found {
		err = s.forgot(known, "is", "another table")
	}
	return err
}
