package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/turnwise/turnwise/coord/driver"
)

// errStandby passes when the server is promoted, or the address leads to the primary again.
var errStandby = errors.New("the server is a read-only standby: give the URL of the primary, or several hosts with target_session_attrs=primary")

func denied(format string, args ...any) error {
	return fmt.Errorf("%w: %s", driver.ErrDenied, fmt.Sprintf(format, args...))
}

// advice is what to do about an error, where that depends on what was tried.
type advice struct {
	denied  string // what to do if the role lacks a right
	missing string // what to do if there is no such table
}

// explain says what to do about an error of the server, if its text does not. What no retry mends becomes ErrDenied: the
// server has refused it, so it was not done.
//
// All errors that it leaves as they are may pass. Whether a swap was applied is then open: certainly if there is no
// SQLSTATE, but also if a backend was told to stop (57014, 57P01) while it waited for its commit. After some, such as that
// of a full disk (53100), the swap was certainly not applied; the caller tries it again all the same.
func explain(err error, a advice) error {
	var before *explained
	if errors.As(err, &before) {
		return err
	}
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return &explained{fmt.Errorf("%w: its TLS certificate is not to be trusted; see sslrootcert and sslmode in the URL: %w", driver.ErrDenied, err)}
	}
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return err
	}
	do, hint := "", ""
	switch e.Code {
	case "28P01":
		do = "the password is wrong, or the role has none"
	case "28000":
		do = "the server does not let this role in from here: see its pg_hba.conf, and sslmode in the URL"
	case "3D000":
		do = "there is no such database: make it with CREATE DATABASE, or name another one in the URL"
	case "42501":
		do = a.denied
	case "42P01", "3F000":
		do = a.missing
	case "42703", "42804", "42883", "42P10", "23502", "22P02":
		do = "the table has another layout: name another one with WithTable"
	case "25006":
		hint = "the server takes no writes at present: is it a standby, or its disk full?"
	case "53100":
		hint = "the server's disk is full: nothing was changed"
	case "53300":
		hint = "the server has no connection to spare: raise max_connections, or see WithConnections"
	case "54000":
		hint = "if the queue of notes is full, some session listens and stays in a transaction: see pg_stat_activity"
	case "26000", "42P05":
		hint = "is there a pooler in transaction mode? Add default_query_exec_mode=exec to the URL"
	case "08P01":
		hint = "is it a pooler that does not take what the URL asks for?"
	}
	switch {
	case do != "":
		return &explained{fmt.Errorf("%w: %s: %w", driver.ErrDenied, do, err)}
	case hint != "":
		return &explained{fmt.Errorf("%s: %w", hint, err)}
	}
	return err
}

// explained is an error that already says what to do.
type explained struct{ error }

func (e *explained) Unwrap() error { return e.error }

func (s *Store) explain(err error) error {
	return explain(err, advice{
		denied:  fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s to the role, and USAGE on its schema", s.table.Sanitize()),
		missing: fmt.Sprintf("there is no table %s: has somebody dropped it? Run what postgres.Schema(%q) returns", s.table.Sanitize(), s.name()),
	})
}

// failed says what was tried. It keeps the error of a ctx that has ended in the chain.
func (s *Store) failed(ctx context.Context, what string, err error) error {
	err = s.explain(err)
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return &oneLine{fmt.Errorf("postgres: %s: %w", what, err)}
}

// oneLine is an error whose text has one line. The client library writes one for each host.
type oneLine struct{ error }

func (e *oneLine) Unwrap() error { return e.error }

func (e *oneLine) Error() string {
	return strings.Join(strings.FieldsFunc(e.error.Error(), isBreak), " ")
}

func isBreak(r rune) bool { return r == '\n' || r == '\t' || r == '\r' }

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
