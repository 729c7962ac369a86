package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/go-sql-driver/mysql"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
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

// explain says what an error of the server means.
//
// All errors without a class may pass. Whether a swap was applied is then open: certainly if the connection has ended, but
// also if the statement was killed (1317) or the server stops (1053).
func explain(err error, a advice) error { return storekit.Explain(err, a.on) }

func (a advice) on(err error) (says string, class error) {
	if storekit.IsUntrusted(err) {
		return "its TLS certificate is not to be trusted; see tls in the DSN", driver.ErrDenied
	}
	if errors.Is(err, mysql.ErrNoTLS) || errors.Is(err, mysql.ErrCleartextPassword) || errors.Is(err, mysql.ErrNativePassword) ||
		errors.Is(err, mysql.ErrOldPassword) || errors.Is(err, mysql.ErrUnknownPlugin) || errors.Is(err, mysql.ErrOldProtocol) {
		return "", driver.ErrDenied
	}
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return "", nil
	}
	return a.of(e.Number)
}

// of says what an error of that number means.
func (a advice) of(number uint16) (says string, class error) {
	switch number {
	case 1045, 1698:
		return "the password is wrong, or there is no such user", driver.ErrDenied
	case 1130, 1524, 1251, 1862, 1820, 4151, 3118:
		return "the server does not let this user in from here", driver.ErrDenied
	case 1044, 1142, 1143, 1227, 1370:
		return a.denied, driver.ErrDenied
	case 1049:
		return "there is no such database: make it with CREATE DATABASE, or name another one", driver.ErrMissing
	case 1046:
		return "name a database in the DSN, or with WithTable(\"database.table\")", coord.ErrInvalid
	case 1176: // ER_KEY_DOES_NOT_EXISTS: of the hint
		return "it is no plain table, or has another layout: name another one with WithTable", driver.ErrDenied
	case 1146, 1932:
		return a.missing, driver.ErrDenied
	case 1054, 1136, 1364, 1366:
		return "the table has another layout: name another one with WithTable", driver.ErrDenied
	case 1071, 1709:
		return "the server's pages are too small for keys of 1,100 bytes: innodb_page_size must be 16k or more", driver.ErrDenied
	case 1153, 1118, 1406, 1301:
		return "", register.ErrTooLarge
	case 1290, 1792, 1836, 3100:
		return "the server takes no writes at present: is it a replica?", nil
	case 1021, 1114, 1030:
		return "is the server's disk full? Nothing was changed", nil
	case 1040:
		return "the server has no connection to spare: raise max_connections, or see WithConnections", nil
	case 1203, 1226:
		return "the server lets this user have no more for now: see the MAX_… of SHOW CREATE USER and max_user_connections, or WithConnections", nil
	case 1129:
		return "the server blocks this host after too many bad connections: FLUSH HOSTS there", nil
	case 1451:
		return "a foreign key of somebody's keeps the row from being removed; nothing was changed: drop that", nil
	case 1205:
		return "somebody keeps the row or the table locked; nothing was changed", nil
	}
	return "", nil
}

// explain says what an error means when the table is in use.
func (t table) explain(err error) error {
	return storekit.Explain(err, func(err error) (string, error) { // nothing is written where there is no error
		return advice{
			denied:  fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s to the user", t.quoted()),
			missing: t.missing(),
		}.on(err)
	})
}

func (t table) missing() string {
	return fmt.Sprintf("there is no table %s: has somebody dropped it? Run what mysql.Schema(%q) returns", t.quoted(), t)
}

// gone is the error for a table that was there.
func (t table) gone() error { return storekit.Denied("%s", t.missing()) }

// failed says what was tried, and what the error means.
func (t table) failed(ctx context.Context, err error, format string, args ...any) error {
	return pkg.Failed(ctx, t.explain(err), format, args...)
}

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
