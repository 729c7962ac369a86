package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnwise/turnwise/coord/driver"
)

// class is what an error means for the request.
//
// A lack of space is final, and yet the request may have been applied: when the quota is used up, etcd still applies what
// it has let in, and answers that with the same error as what it refuses from then on. So whoever has put something looks.
type class int

const (
	passing class = iota // try again; the request may or may not have been applied
	denial               // credentials or permission: ErrDenied; not applied
	final                // another try would not help; not applied, unless there was no space
)

func classify(err error) class {
	switch {
	case is(err, rpctypes.ErrAuthOldRevision), is(err, errForLearner), is(err, rpctypes.ErrNotLeader),
		is(err, rpctypes.ErrNotCapable):
		return passing // another member will answer, or the same one a moment later
	case is(err, rpctypes.ErrAuthFailed), is(err, rpctypes.ErrUserEmpty), is(err, rpctypes.ErrUserNotFound),
		is(err, rpctypes.ErrRoleNotGranted), is(err, rpctypes.ErrInvalidAuthMgmt):
		return denial
	case is(err, rpctypes.ErrNoSpace):
		return final
	}
	switch codeOf(err) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return denial
	case codes.InvalidArgument, codes.NotFound, codes.OutOfRange, codes.FailedPrecondition, codes.AlreadyExists, codes.DataLoss:
		return final
	case codes.ResourceExhausted:
		if strings.Contains(err.Error(), "larger than max") {
			return final
		}
	}
	return passing
}

// isTooLarge reports whether an answer was larger than the client's Config allows. The request itself was carried out.
func isTooLarge(err error) bool {
	return codeOf(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "received message larger than max")
}

var errForLearner = rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner)

// is compares with the errors of rpctypes. Errors straight from gRPC must first go through rpctypes.Error.
func is(err, known error) bool { return errors.Is(err, known) }

func codeOf(err error) codes.Code {
	var e rpctypes.EtcdError
	switch {
	case errors.As(err, &e):
		return e.Code()
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	}
	return status.Code(err)
}

// failed says which operation failed.
func failed(what string, err error) error { return fmt.Errorf("etcd: %s: %w", what, err) }

// explain adds to an error that no retry would fix what to do about it.
func (d *service) explain(err error) error {
	hint := ""
	switch {
	case is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%w: the service takes no writes until it is compacted, defragmented, and the alarm disarmed", err)
	case classify(err) != denial:
		return err
	case is(err, rpctypes.ErrPermissionDenied):
		hint = fmt.Sprintf(": the user needs readwrite on %s, such as by "+
			"etcdctl role grant-permission ROLE readwrite --prefix %s", d.prefixes(), d.keys.root)
	case is(err, rpctypes.ErrUserEmpty):
		hint = ": the service wants a user; set Username and Password in the client's Config"
	case is(err, rpctypes.ErrAuthFailed):
		hint = ": check Username and Password in the client's Config"
	case codeOf(err) == codes.Unauthenticated:
		hint = ": the token is not, or no longer, valid; with Username and Password the client fetches new ones by itself"
	case codeOf(err) == codes.Unimplemented:
		hint = ": what answers there is not etcd 3.4 or newer"
	}
	return fmt.Errorf("%w: %w%s", driver.ErrDenied, err, hint)
}

// prefixes says which keys the permissions must cover.
func (d *service) prefixes() string {
	if d.keys.names == Stock {
		return fmt.Sprintf("the names of its lines and the prefix %q", d.keys.sessions())
	}
	return fmt.Sprintf("the prefix %q", d.keys.root)
}

// unanswered returns the error of a request given up because ctx has ended, with the service's last error.
func unanswered(ctx context.Context, last error) error {
	err := context.Cause(ctx)
	if own := ctx.Err(); !errors.Is(err, own) && !errors.Is(err, driver.ErrSessionEnded) {
		err = fmt.Errorf("%w: %w", own, err)
	}
	if last == nil || errors.Is(last, context.Canceled) || errors.Is(last, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w; before that: %w", err, last)
}
