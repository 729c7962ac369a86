package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
)

// Dialect is the kind of SQL that a database speaks.
type Dialect int

// The dialects.
const (
	Postgres Dialect = 1 + iota // PostgreSQL
	MySQL                       // and MariaDB
	SQLite                      // version 3
)

// DefaultTable is the name of the table if New is given none.
const DefaultTable = "turnwise_fence"

// Fence is a table. It may be used by any number of goroutines.
type Fence struct {
	dialect Dialect
	table   string // as it was given
	sql     statements
	owner   string // who may own it
	vetted  *atomic.Bool
}

// New returns the fence in that table, or in DefaultTable if table is "". The name may have a schema and a dot before
// it. New asks the database nothing.
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
	schema := "DATABASE()"
	if len(parts) == 2 {
		schema = "'" + parts[0] + "'"
	}
	s.vet = strings.NewReplacer("{schema}", schema, "{name}", "'"+parts[len(parts)-1]+"'").Replace(s.vet)
	return &Fence{
		dialect: d,
		table:   table,
		sql:     s.of(s.quote + strings.Join(parts, s.quote+"."+s.quote) + s.quote),
		vetted:  new(atomic.Bool),
	}, nil
}

// OwnedBy returns the fence for a table that may belong to that role. On PostgreSQL, whoever owns a table can have code of his
// run with the rights of all who write to it. So Create and the first Pass refuse (coord.ErrDenied) a table that belongs neither to
// the role that asks, nor to the owner of the database, nor to a superuser, nor to role. For other databases it changes nothing.
func (f *Fence) OwnedBy(role string) *Fence {
	of := *f
	of.owner, of.vetted = role, new(atomic.Bool)
	return &of
}

// asked is a database or a transaction.
type asked interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// vet refuses a table that could run somebody else's code with our rights, or that would not keep what passes. found is false if there is
// none.
func (f *Fence) vet(ctx context.Context, db asked) (found bool, err error) {
	if f.sql.vet == "" {
		return true, nil
	}
	var wrong string
	question := strings.ReplaceAll(f.sql.vet, "{owner}", strings.ReplaceAll(f.owner, "'", "''"))
	switch err := db.QueryRowContext(ctx, question).Scan(&wrong); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	case wrong != "" && f.dialect == MySQL:
		return true, fmt.Errorf("%w: the table %s %s, and is not what Schema returns: it may let stale holders through, so drop it, or name another one",
			coord.ErrDenied, f.table, coord.Printable(wrong))
	case wrong != "":
		return true, fmt.Errorf("%w: the table %s %s, who could have code run there with the rights of this program: drop it, or see OwnedBy",
			coord.ErrDenied, f.table, coord.Printable(wrong))
	}
	return true, nil
}

// Schema returns the SQL that creates the table, for programs whose database user may not create it. It does nothing if
// the table exists. The program's user needs SELECT, INSERT and UPDATE on the table.
func (f *Fence) Schema() string { return f.sql.schema + ";\n" }

// Create creates the table unless it exists.
func (f *Fence) Create(ctx context.Context, db *sql.DB) error {
	there, err := f.vet(ctx, db) // before anything reads from it
	if err == nil && there && f.exists(ctx, db) {
		return nil
	}
	if err == nil {
		if _, err = db.ExecContext(ctx, f.sql.schema); err == nil { // or somebody else has made it at the same moment
			_, err = f.vet(ctx, db)
		} else if there, wrong := f.vet(ctx, db); wrong == nil && there && f.exists(ctx, db) {
			err = nil
		}
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("turnwise: make the table %s (or have somebody run what Schema returns): %w", f.table, err)
}

func (f *Fence) exists(ctx context.Context, db *sql.DB) bool {
	rows, err := db.QueryContext(ctx, f.sql.probe)
	return err == nil && rows.Close() == nil && rows.Err() == nil
}

// Pass lets s through for as long as the transaction lasts, or returns coord.ErrStale if a greater stamp of the line
// has passed before. It waits until other transactions that have passed for the line have ended; ctx governs the wait.
// After any error, roll back.
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
	if err := f.trust(ctx, tx); err != nil {
		return err
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
	// It is stale, as a rule. MariaDB and MySQL also get here when the row is new: their drivers do not all count alike.
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

// trust looks once whose table it is. MariaDB and MySQL are not asked: there, a transaction that has read sees nothing newer.
func (f *Fence) trust(ctx context.Context, tx *sql.Tx) error {
	if f.dialect != Postgres || f.vetted.Load() {
		return nil
	}
	found, err := f.vet(ctx, tx)
	if err == nil && !found {
		err = fmt.Errorf("there is no table %s (make the table with Create, or run what Schema returns)", f.table)
	}
	if err == nil {
		f.vetted.Store(true)
	}
	return err
}

// explain says what to do about a missing table. Each driver has errors of its own, so only the text can tell.
func (f *Fence) explain(err error) error {
	text := err.Error()
	if strings.Contains(text, f.table) && (strings.Contains(text, "exist") || strings.Contains(text, "no such table")) {
		return fmt.Errorf("%w (make the table with Create, or run what Schema returns)", err)
	}
	return err
}

// On returns the fence for callers that write elsewhere, such as httpfence: each Pass is a transaction of its own on db.
func (f *Fence) On(db *sql.DB) fence.Fence { return alone{f, db} }

// alone is a Fence whose transactions do nothing else.
type alone struct {
	*Fence
	db *sql.DB
}

func (a alone) Pass(ctx context.Context, line string, s fence.Stamp) error {
	tx, err := a.db.BeginTx(ctx, nil)
	if err != nil {
		return &coord.Error{Op: "pass", Line: line, Err: err}
	}
	defer tx.Rollback()
	if err := a.Fence.Pass(ctx, tx, line, s); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return &coord.Error{Op: "pass", Line: line, Err: err}
	}
	return nil
}
