package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// errStandby passes when the server is promoted, or the address leads to the primary again.
var errStandby = errors.New("the server is a read-only standby: give the URL of the primary, or several hosts with target_session_attrs=primary")

// advice is what to do about an error, where that depends on what was tried.
type advice struct {
	denied  string // what to do if the role lacks a right
	missing string // what to do if there is no such table
}

// explain says what an error of the server means.
//
// All errors without a class may pass. Whether a swap was applied is then open: certainly if there is no SQLSTATE, but also
// if a backend was told to stop (57014, 57P01) while it waited for its commit. After some, such as that of a full disk
// (53100), the swap was certainly not applied; the caller tries it again all the same.
func explain(err error, a advice) error { return storekit.Explain(err, a.on) }

func (a advice) on(err error) (says string, class error) {
	if storekit.IsUntrusted(err) {
		return "its TLS certificate is not to be trusted; see sslrootcert and sslmode in the URL", driver.ErrDenied
	}
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return "", nil
	}
	switch e.Code {
	case "28P01":
		return "the password is wrong, or the role has none", driver.ErrDenied
	case "28000":
		return "the server does not let this role in from here: see its pg_hba.conf, and sslmode in the URL", driver.ErrDenied
	case "3D000":
		return "there is no such database: make it with CREATE DATABASE, or name another one in the URL", driver.ErrMissing
	case "42501":
		return a.denied, driver.ErrDenied
	case "42P01":
		return a.missing, driver.ErrDenied
	case "3F000":
		return a.missing, driver.ErrMissing
	case "42703", "42804", "42883", "42P10", "23502", "22P02":
		return "the table has another layout: name another one with WithTable", driver.ErrDenied
	case "25006":
		return "the server takes no writes at present: is it a standby, or its disk full?", nil
	case "53100":
		return "the server's disk is full: nothing was changed", nil
	case "53300":
		return "the server has no connection to spare, or the role or the database may have no more: raise max_connections or the CONNECTION LIMIT " +
			"of whichever it is, or see WithConnections", nil
	case fullQueue:
		return "if the queue of notes is full, some session listens and stays in a transaction: see pg_stat_activity", nil
	case "26000", "42P05":
		return "is there a pooler in transaction mode? Add default_query_exec_mode=exec to the URL", nil
	case "08P01":
		return "is it a pooler that does not take what the URL asks for, or has no connection to spare?", nil
	}
	return "", nil
}

// explain says what an error means when the table is in use.
func (t table) explain(err error) error {
	return storekit.Explain(err, func(err error) (string, error) { // nothing is written where there is no error
		return advice{
			denied:  fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s to the role, and USAGE on its schema", t.quoted()),
			missing: t.missing(),
		}.on(err)
	})
}

func (t table) missing() string {
	return fmt.Sprintf("there is no table %s: has somebody dropped it? Run what postgres.Schema(%q) returns", t.quoted(), t)
}

// gone is the error for a table that was there.
func (t table) gone() error { return storekit.Denied("%s", t.missing()) }

// failed says what was tried, and what the error means.
func (t table) failed(ctx context.Context, err error, format string, args ...any) error {
	return pkg.Failed(ctx, t.explain(err), format, args...)
}

// notTheOne is SQLSTATE's division by zero, by which a transaction ends at another server than the one that we know.
const notTheOne = "22012"

// fullQueue is SQLSTATE's limit of a program. Anybody who may connect can listen, stay in a transaction, and tell until the queue of notes
// is full; then nothing that tells is committed. So a swap does without its notes, which are hints.
const fullQueue = "54000"

// undone reports whether a statement certainly did nothing, and is worth another try at once.
func undone(err error) bool {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		switch e.Code {
		case "40001", "40P01": // others were in the way
			return true
		case notTheOne: // the next try looks where it is
			return true
		}
		return false
	}
	return pgconn.SafeToRetry(err)
}

func isState(err error, code string) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == code
}

// cut is an error after which the connection is gone.
type cut struct{ error }

func (c *cut) Unwrap() error { return c.error }

func isCut(err error) bool {
	var c *cut
	return errors.As(err, &c)
}
