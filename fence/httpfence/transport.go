package httpfence

import (
	"fmt"
	"net/http"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
)

// Transport sends a token with each request: that of the hold of its line that the request's context descends from (by
// Hold.Context, Hold.With or a recipe's Do). A request whose context has no such hold, or one that has ended, is not
// sent; the error is coord.ErrLost.
type Transport struct {
	Base   http.RoundTripper // nil: http.DefaultTransport
	Client *coord.Client     // the one that holds
	Line   string
	Epoch  uint32 // see fence.Stamp
}

// RoundTrip sends the request with its token.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	h := t.Client.Held(r.Context(), t.Line)
	if h == nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, &coord.Error{Op: "send", Line: t.Line,
			Err: fmt.Errorf("%w: the request's context descends from no live hold", coord.ErrLost)}
	}
	r = r.Clone(r.Context())
	Set(r.Header, t.Line, fence.Stamp{Epoch: t.Epoch, Token: h.Token()})
	return base.RoundTrip(r)
}
