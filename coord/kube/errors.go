package kube

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// failed says what was tried, and what the error means.
func (s *Store) failed(ctx context.Context, err error, format string, args ...any) error {
	return pkg.Failed(ctx, s.explain(err), format, args...)
}

// explain says what an error of the API server means. All errors without a class may pass. Whether a change was made is then
// open, unless the server says that it has refused it.
func (s *Store) explain(err error) error { return storekit.Explain(err, s.advise) }

// errAlien says that it was no API server who has answered.
var errAlien = errors.New("this is no Kubernetes API server")

func (s *Store) advise(err error) (says string, class error) {
	if storekit.IsUntrusted(err) {
		return "the API server's certificate is not to be trusted; see WithCAFile", driver.ErrDenied
	}
	if errors.Is(err, errAlien) {
		return "", s.alien()
	}
	var st *status
	if !errors.As(err, &st) {
		return "", nil
	}
	switch {
	case st.noNamespace():
		return "there is no such namespace: make it with kubectl create namespace, or name another one", driver.ErrMissing
	case st.isAlien() && st.Code < http.StatusInternalServerError && st.Code != http.StatusTooManyRequests && st.Code != http.StatusUnauthorized:
		return errAlien.Error(), s.alien()
	case st.isTooLarge():
		return "", register.ErrTooLarge
	}
	switch st.Code {
	case http.StatusUnauthorized:
		return "the API server does not know who we are: the token or the certificate is missing, has expired, or is of another cluster", driver.ErrDenied
	case http.StatusForbidden:
		return st.forbidden()
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable:
		return "this server knows no leases (coordination.k8s.io/v1)", s.alien()
	case http.StatusTooManyRequests:
		return "the API server is too busy: nothing was changed", nil
	}
	return "", nil
}

// alien is the class of an answer that is no API server's. Once one was there, it is something before it that answers in its place, as
// when it is away; that may pass.
func (s *Store) alien() error {
	if s.found.Load() {
		return nil
	}
	return driver.ErrDenied
}

// forbidden tells a right that is lacking from what else is forbidden, and may be allowed later.
func (e *status) forbidden() (says string, class error) {
	switch {
	case strings.Contains(e.Message, "exceeded quota"):
		return "the namespace's quota is used up: nothing was changed", nil
	case strings.Contains(e.Message, " cannot "):
		return "it takes a Role with get, list, watch, create, update and delete on leases of coordination.k8s.io in the namespace", driver.ErrDenied
	}
	return "", nil
}

// isTooLarge reports whether an object is larger than the API server or its etcd takes.
func (e *status) isTooLarge() bool {
	return e.Code == http.StatusRequestEntityTooLarge || strings.Contains(e.Message, "request is too large") ||
		e.Code == http.StatusUnprocessableEntity && strings.Contains(e.Message, "Too long")
}

var errLostMark = errors.New("the mark of the memory changes all the time: is somebody deleting leases?")
