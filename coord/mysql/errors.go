package mysql

import (
	"context"
	"crypto/tls"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
)

var (
	// errReadOnly passes when the server becomes the primary.
	errReadOnly = errors.New("the server is read_only, as a replica is: name the primary")

	errPacket = fmt.Errorf("%w: it is longer than the server's max_allowed_packet", register.ErrTooLarge)
)

// advice is what to do about an error, where that depends on what was tried.
type advice struct {
	denied  string // what to do if the user lacks a right
	missing string // what to do if there is no such table
}

// explain says what to do about an error of the server, if its text does not. What no retry mends becomes ErrDenied: the
// server has refused it, so it was not done.
//
// All errors that it leaves as they are may pass. Whether a swap was applied is then open: certainly if the connection has
// ended, but also if the statement was killed (1317) or the server stops (1053).
func explain(err error, a advice) error {
	var before *explained
	if errors.As(err, &before) || errors.Is(err, driver.ErrDenied) {
		return err
	}
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return &explained{fmt.Errorf("%w: its TLS certificate is not to be trusted; see tls in the DSN: %w", driver.ErrDenied, err)}
	}
	if errors.Is(err, mysql.ErrNoTLS) || errors.Is(err, mysql.ErrCleartextPassword) || errors.Is(err, mysql.ErrNativePassword) ||
		errors.Is(err, mysql.ErrOldPassword) || errors.Is(err, mysql.ErrUnknownPlugin) || errors.Is(err, mysql.ErrOldProtocol) {
		return &explained{fmt.Errorf("%w: %w", driver.ErrDenied, err)}
	}
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return err
	}
	do, hint := "", ""
	switch e.Number {
	case 1045, 1698:
		do = "the password is wrong, or there is no such user"
	case 1130, 1524, 1251, 1862, 1820, 4151, 3118:
		do = "the server does not let this user in from here"
	case 1044, 1142, 1143, 1227, 1370:
		do = a.denied
	case 1049:
		do = "there is no such database: make it with CREATE DATABASE, or name another one"
	case 1046:
		do = "name a database in the DSN, or with WithTable(\"database.table\")"
	case 1146, 1932:
		do = a.missing
	case 1054, 1136, 1364, 1366:
		do = "the table has another layout: name another one with WithTable"
	case 1071, 1709:
		do = "the server's pages are too small for keys of 1,100 bytes: innodb_page_size must be 16k or more"
	case 1153, 1118, 1406, 1301:
		return &explained{fmt.Errorf("%w: %w", register.ErrTooLarge, err)}
	case 1290, 1792, 1836, 3100:
		hint = "the server takes no writes at present: is it a replica?"
	case 1021, 1114, 1030:
		hint = "is the server's disk full? Nothing was changed"
	case 1040, 1203, 1226:
		hint = "the server has no connection to spare: raise max_connections, or see WithConnections"
	case 1129:
		hint = "the server blocks this host after too many bad connections: FLUSH HOSTS there"
	case 1205:
		hint = "somebody keeps the row or the table locked; nothing was changed"
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
		denied:  fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s to the user", s.table.quoted()),
		missing: fmt.Sprintf("there is no table %s: has somebody dropped it? Run what mysql.Schema(%q) returns", s.table.quoted(), s.table),
	})
}

// failed says what was tried. It keeps the error of a ctx that has ended in the chain.
func (s *Store) failed(ctx context.Context, what string, err error) error {
	err = s.explain(err)
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return &oneLine{fmt.Errorf("mysql: %s: %w", what, err)}
}

// oneLine is an error whose text has one line.
type oneLine struct{ error }

func (e *oneLine) Unwrap() error { return e.error }

func (e *oneLine) Error() string {
	return strings.Join(strings.FieldsFunc(e.error.Error(), isBreak), " ")
}

func isBreak(r rune) bool { return r == '\n' || r == '\t' || r == '\r' }

// undone reports whether a statement certainly did nothing, and is worth another try at once: it was never sent, or it was
// in the way of others (1213) or had to wait for long (1205), and was rolled back.
func undone(err error) bool {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number == 1213 || e.Number == 1205
	}
	return errors.Is(err, sqldriver.ErrBadConn)
}

// isCut reports whether a connection has ended.
func isCut(err error) bool {
	var n *net.OpError
	return errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, sqldriver.ErrBadConn) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &n) && n.Op != "dial"
}
