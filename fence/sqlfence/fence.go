package sqlfence

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
)

// Dialect is which SQL a database speaks.
type Dialect int

// The dialects.
const (
	Postgres Dialect = 1 + iota
	MySQL            // and MariaDB
	SQLite
)

// DefaultTable is the name of the table if New is given none.
const DefaultTable = "turnwise_fence"

// Fence is a table. It holds no state, and may be used by any number of goroutines.
type Fence struct {
	dialect Dialect
	table   string // as it was given
	sql     statements
}

// New returns the fence of that table, which has its default name if it is "". A name may have a schema before it, with a
// dot. New asks the database nothing.
func New(d Dialect, table string) (*Fence, error) {
	if table == "" {
		table = DefaultTable
	}
	s, ok := dialects[d]
	if !ok {
		return nil, fmt.Errorf("turnwise: %w: sqlfence has no dialect %d: use Postgres, MySQL or SQLite", coord.ErrInvalid, d)
	}
	parts := strings.Split(table, ".")
	ok = len(parts) <= 2
	for _, part := range parts {
		ok = ok && part != "" && len(part) <= 63 && !strings.ContainsAny(part, "`\"'?$%\\\x00") && strings.TrimSpace(part) == part
	}
	if !ok {
		return nil, fmt.Errorf("turnwise: %w: the table %q: write table or schema.table, each of 1 to 63 bytes, without quotes, "+
			"backslashes and the signs of placeholders", coord.ErrInvalid, table)
	}
	return &Fence{dialect: d, table: table, sql: s.of(s.quote + strings.Join(parts, s.quote+"."+s.quote) + s.quote)}, nil
}

// Schema is the SQL that makes the table, for those whose user may not. It does nothing if there is one. The user of the
// table needs SELECT, INSERT and UPDATE on it.
func (f *Fence) Schema() string { return f.sql.schema + ";\n" }

// Create makes the table unless it is there.
func (f *Fence) Create(ctx context.Context, db *sql.DB) error {
	if f.exists(ctx, db) {
		return nil
	}
	_, err := db.ExecContext(ctx, f.sql.schema)
	if err == nil || f.exists(ctx, db) { // somebody else may have made it at the same moment
		return nil
	}
	return fmt.Errorf("turnwise: make the table %s (or have somebody run what Schema returns): %w", f.table, err)
}

func (f *Fence) exists(ctx context.Context, db *sql.DB) bool {
	rows, err := db.QueryContext(ctx, f.sql.probe)
	return err == nil && rows.Close() == nil && rows.Err() == nil
}

// Pass lets s through for as long as the transaction lasts, or returns coord.ErrStale if a greater stamp of the line has
// passed before. It waits for other transactions that have passed there to end; ctx governs the wait. After any error roll
// back.
func (f *Fence) Pass(ctx context.Context, tx *sql.Tx, line string, s fence.Stamp) error {
	if err := coord.CheckName(line); err != nil {
		return err
	}
	err := s.After(fence.Stamp{})
	if err == nil {
		err = f.pass(ctx, tx, line, s)
	}
	if err != nil {
		return &coord.Error{Op: "pass", Line: line, Err: err}
	}
	return nil
}

func (f *Fence) pass(ctx context.Context, tx *sql.Tx, line string, s fence.Stamp) error {
	if tx == nil {
		return fmt.Errorf("%w: the transaction is nil", coord.ErrInvalid)
	}
	done, err := tx.ExecContext(ctx, f.sql.pass, line, int64(s.Epoch), int64(s.Token))
	if err != nil {
		return f.explain(err)
	}
	if rows, err := done.RowsAffected(); err != nil {
		return err
	} else if rows == f.sql.passed {
		return nil
	}
	// Stale, as a rule. MariaDB and MySQL also come here when the row is new: their drivers do not all count alike.
	var last fence.Stamp
	if err := tx.QueryRowContext(ctx, f.sql.read, line).Scan(&last.Epoch, &last.Token); err != nil {
		return f.explain(err)
	}
	if err := s.After(last); err != nil {
		return err
	}
	if f.dialect == MySQL && s == last {
		return nil
	}
	return fmt.Errorf("the table %s has not kept the stamp %v: has it a trigger or a rule?", f.table, s)
}

// explain says what to do about a table that is missing. Drivers have errors of their own, so the text has to do.
func (f *Fence) explain(err error) error {
	text := err.Error()
	if strings.Contains(text, f.table) && (strings.Contains(text, "exist") || strings.Contains(text, "no such table")) {
		return fmt.Errorf("%w (make the table with Create, or run what Schema returns)", err)
	}
	return err
}

// Keeper returns the fence for those who write elsewhere, such as httpfence: each Pass is a transaction of its own.
func (f *Fence) Keeper(db *sql.DB) fence.Keeper { return keeper{f, db} }

type keeper struct {
	*Fence
	db *sql.DB
}

func (k keeper) Pass(ctx context.Context, line string, s fence.Stamp) error {
	tx, err := k.db.BeginTx(ctx, nil)
	if err != nil {
		return &coord.Error{Op: "pass", Line: line, Err: err}
	}
	defer tx.Rollback()
	if err := k.Fence.Pass(ctx, tx, line, s); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return &coord.Error{Op: "pass", Line: line, Err: err}
	}
	return nil
}
