package mysql

import (
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"
)

func TestWhichErrorsEndAConnection(t *testing.T) {
	reading, dialling := &net.OpError{Op: "read", Err: errors.New("reset")}, &net.OpError{Op: "dial", Err: errors.New("refused")}
	for _, err := range []error{mysql.ErrInvalidConn, sqldriver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF, reading} {
		if !isCut(fmt.Errorf("swap: %w", err)) {
			t.Errorf("%v does not", err)
		}
	}
	for _, err := range []error{dialling, &mysql.MySQLError{Number: 1213}, errors.New("other")} {
		if isCut(err) {
			t.Errorf("%v does", err)
		}
	}
}
