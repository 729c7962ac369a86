package storekit

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
)

// Denied returns the error for what no retry mends: driver.ErrDenied.
func Denied(format string, args ...any) error {
	return &explained{fmt.Errorf("%w: %s", driver.ErrDenied, fmt.Sprintf(format, args...))} // an index in the format counts args alone
}

// Explain adds to an error of the service what it means and what to do about it, unless it says so already. advise returns
// that, or "", and the class that the error then has: driver.ErrDenied if the service has refused for good, so nothing was
// done; driver.ErrMissing if there is no such database; nil if it may pass.
func Explain(err error, advise func(error) (advice string, class error)) error {
	var before *explained
	if err == nil || errors.As(err, &before) || errors.Is(err, driver.ErrDenied) {
		return err
	}
	advice, class := advise(err)
	switch {
	case class != nil && advice != "":
		return &explained{fmt.Errorf("%w: %s: %w", class, advice, err)}
	case class != nil:
		return &explained{fmt.Errorf("%w: %w", class, err)}
	case advice != "":
		return &explained{fmt.Errorf("%s: %w", advice, err)}
	}
	return err
}

// IsUntrusted reports whether a server's TLS certificate is not to be trusted, whoever has checked it.
func IsUntrusted(err error) bool {
	var untrusted *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var other x509.HostnameError
	return errors.As(err, &untrusted) || errors.As(err, &unknown) || errors.As(err, &invalid) || errors.As(err, &other)
}

// explained is an error that already says what to do.
type explained struct{ error }

func (e *explained) Unwrap() error { return e.error }

// maxText is the longest text of an error, in bytes. Several servers may have something to say in it.
const maxText = 4 << 10

// OneLine returns an error whose text has one line, is no longer than a few kilobytes and is safe to show: some libraries write
// several lines, and a server may say anything.
func OneLine(err error) error { return &oneLine{err} }

type oneLine struct{ error }

func (e *oneLine) Unwrap() error { return e.error }

func (e *oneLine) Error() string {
	text, rest := e.error.Error(), ""
	if len(text) > maxText {
		text, rest = strings.ToValidUTF8(text[:maxText], ""), "…"
	}
	var b strings.Builder
	for i, part := range strings.FieldsFunc(text, isBreak) {
		if i > 0 {
			b.WriteByte(' ')
		}
		for _, r := range part {
			if unicode.IsPrint(r) {
				b.WriteRune(r)
			} else {
				b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			}
		}
	}
	return b.String() + rest
}

func isBreak(r rune) bool { return r == '\n' || r == '\t' || r == '\r' }

// NotOurs is Denied for a register in whose place something stands that no store has written.
func NotOurs(format string, args ...any) error { return &notOurs{Denied(format, args...)} }

type notOurs struct{ error }

func (e *notOurs) Unwrap() error { return e.error }

// Listed returns what a list says of a register that was read. key is its key, or as much of that as is known. One that is not ours
// stands, so that nobody takes it for a session that is over, and has a value that is nobody's: whoever can write to one register
// keeps nobody from listing the others.
func Listed(key string, it register.Item, err error) (register.Item, error) {
	var e *notOurs
	if !errors.As(err, &e) {
		return it, err
	}
	const nobodys = "\xff"
	return register.Item{Key: key, Version: register.Version([]byte("\xff\xff\xff\xff\xff\xff\xff\xff")), Value: []byte(nobodys), Age: -1}, nil
}
