package nats

import (
	"context"
	"errors"
	"fmt"

	natsgo "github.com/nats-io/nats.go"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// apiError is how JetStream says no.
type apiError struct {
	Code    int    `json:"code"`
	ErrCode int    `json:"err_code"`
	Text    string `json:"description"`
}

func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Text, e.ErrCode) }

// Numbers of JetStream's errors.
const (
	wrongSequence     = 10071
	wrongSequenceToo  = 10164 // the same, with the sequence not named
	noMessage         = 10037
	noStream          = 10059
	nameInUse         = 10058
	subjectsOverlap   = 10065
	notEnabled        = 10076
	notForAccount     = 10039
	insufficient      = 10023
	storageExceeded   = 10047
	tooManyStreams    = 10027
	streamBytesNeeded = 10113
)

func isCode(err error, codes ...int) bool {
	var e *apiError
	if !errors.As(err, &e) {
		return false
	}
	for _, code := range codes {
		if e.ErrCode == code {
			return true
		}
	}
	return false
}

// errNobody says that no stream takes what was sent: it has gone.
var errNobody = errors.New("no stream has this subject")

// errCut says that the connection is over.
var errCut = errors.New("the connection to the server is over")

// isGone reports whether an error says that the stream is not there any more.
func isGone(err error) bool { return errors.Is(err, errNobody) || isCode(err, noStream) }

// failed says what was tried, and what the error means.
func failed(ctx context.Context, err error, format string, args ...any) error {
	return pkg.Failed(ctx, explain(err), format, args...)
}

// explain says what an error of the server or of the client library means. All errors without a class may pass.
func explain(err error) error { return storekit.Explain(err, advise) }

func advise(err error) (says string, class error) {
	switch {
	case storekit.IsUntrusted(err):
		return "the server's certificate is not to be trusted; see WithTLS", driver.ErrDenied
	case errors.Is(err, natsgo.ErrAuthorization), errors.Is(err, natsgo.ErrAuthExpired), errors.Is(err, natsgo.ErrAuthRevoked),
		errors.Is(err, natsgo.ErrAccountAuthExpired):
		return "the server does not let us in: user, password, token or credentials are missing or wrong", driver.ErrDenied
	case errors.Is(err, natsgo.ErrPermissionViolation):
		return "the user lacks a right: see the documentation of coord/nats for all that it takes", driver.ErrDenied
	case errors.Is(err, natsgo.ErrSecureConnRequired), errors.Is(err, natsgo.ErrSecureConnWanted):
		return "one of us wants TLS, and the other does not", driver.ErrDenied
	case isCode(err, notEnabled, notForAccount):
		return "JetStream is not enabled for this account", driver.ErrDenied
	case isCode(err, tooManyStreams, streamBytesNeeded):
		return "the account may not have another stream of this kind", driver.ErrDenied
	case isCode(err, insufficient, storageExceeded):
		return "the account's storage is used up: nothing was changed", nil
	}
	return "", nil
}
