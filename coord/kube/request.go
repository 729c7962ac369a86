package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// request is one about the leases of the namespace.
type request struct {
	method string
	name   string // "": all of them
	query  url.Values
	body   any
}

// deletion asks for an object to be deleted, if it is still the one that was seen.
func deletion(name string, at stand) request {
	preconditions := map[string]string{"uid": at.uid}
	if at.revision != "" {
		preconditions["resourceVersion"] = at.revision
	}
	return request{method: http.MethodDelete, name: name, body: map[string]any{
		"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions,
	}}
}

const (
	// maxCommas is how many commas an answer may have outside of texts: what is decoded may be fifty times as large as {},{},{} is.
	// A lease that has as many as the API server takes has less.
	maxCommas = 1 << 19

	// maxRefusal is how much is read of an error.
	maxRefusal = 64 << 10

	// mostBusy is how often a request is sent again that the server was too busy to look at.
	mostBusy = 10

	// longestBusy is the longest pause before that, whatever the server asks for.
	longestBusy = 5 * time.Second
)

// maxAnswer is the largest answer that is read. A test has a smaller one.
var maxAnswer = 64 << 20

// ask sends a request and decodes the answer into out, if that is not nil.
func (s *Store) ask(ctx context.Context, q request, out any) error {
	_, err := s.askDated(ctx, q, out)
	return err
}

// askDated also returns what the server's clock said, in whole seconds.
func (s *Store) askDated(ctx context.Context, q request, out any) (date time.Time, err error) {
	err = patiently(ctx, func() error {
		date, err = s.askOnce(ctx, q, out)
		return err
	})
	return date, err
}

// patiently tries again when a server says that it was too busy: it has done nothing.
func patiently(ctx context.Context, try func() error) error {
	for tries := 0; ; tries++ {
		err := try()
		var st *status
		if !errors.As(err, &st) || st.Code != http.StatusTooManyRequests || tries == mostBusy {
			return err
		}
		pause := driverkit.Jitter(max(st.retryAfter, driverkit.Pause(tries)))
		if end, has := ctx.Deadline(); has && time.Until(end) < pause || driverkit.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

func (s *Store) askOnce(ctx context.Context, q request, out any) (date time.Time, err error) {
	resp, err := s.send(ctx, q)
	if err != nil {
		return date, err
	}
	defer resp.Body.Close()
	if out == nil {
		out = &lease{}
	}
	body := &bounded{from: resp.Body}
	body.again()
	err = json.NewDecoder(body).Decode(out)
	if err == nil {
		err = q.answeredBy(out)
	}
	if err != nil {
		return date, fmt.Errorf("the API server's answer: %w", err)
	}
	date, _ = http.ParseTime(resp.Header.Get("Date"))
	return date, nil
}

// answeredBy returns an error if what was decoded is not what an API server answers to the request. What stands before it may say in its
// place that all is well, and a write that is believed by that was never made.
func (q request) answeredBy(out any) error {
	kind, m := "", metadata{}
	switch is := out.(type) {
	case *leases:
		if kind, m = is.Kind, is.Metadata; kind == "LeaseList" && m.ResourceVersion != "" {
			return nil
		}
	case *lease:
		kind, m = is.Kind, is.Metadata
		name := q.name
		if sent, ok := q.body.(*lease); ok {
			name = sent.Metadata.Name
		}
		if kind == "Lease" && m.Name == name && m.UID != "" && m.ResourceVersion != "" || kind == "Status" && q.method == http.MethodDelete {
			return nil
		}
	}
	return fmt.Errorf("this does not answer what was asked: %.60q of kind %.60q; does something else answer in the server's place?", m.Name, kind)
}

// errTooMuch says that an answer is larger than what is read.
var errTooMuch = errors.New("it is too long")

// bounded ends with errTooMuch when more JSON comes than is read.
type bounded struct {
	from   io.Reader
	left   int
	commas storekit.Commas
}

// again begins with the next answer, or event.
func (b *bounded) again() { b.left, b.commas.N = maxAnswer, 0 }

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 || b.commas.N > maxCommas {
		return 0, errTooMuch
	}
	n, err := b.from.Read(p[:min(len(p), b.left)])
	b.left -= n
	b.commas.Count(p[:n])
	return n, err
}

// send returns the answer if the server has done what was asked, with its body to be read and closed.
func (s *Store) send(ctx context.Context, q request) (*http.Response, error) {
	if s.life.Over() {
		return nil, storekit.ErrClosed
	}
	to := *s.base
	if q.name != "" {
		to.Path += "/" + q.name
	}
	to.RawQuery = q.query.Encode()
	var body io.Reader
	if q.body != nil {
		text, err := json.Marshal(q.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, to.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "turnwise")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, bare(err)
	}
	isJSON := strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json")
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols: // the body is the bare connection, which heeds no ctx
		err = fmt.Errorf("%w: it changes to another protocol", errAlien)
	case resp.StatusCode/100 != 2:
		err = refusal(resp, isJSON)
	case !isJSON:
		err = fmt.Errorf("%w: it answers with %.60q", errAlien, resp.Header.Get("Content-Type"))
	default:
		return resp, nil
	}
	resp.Body.Close()
	return nil, err
}

// bare takes the method and the long URL off an error of the HTTP client.
func bare(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// status is what the API server says when it has not done what was asked.
type status struct {
	Kind     string   `json:"kind"`
	Code     int      `json:"code"`
	Reason   string   `json:"reason"`
	Message  string   `json:"message"`
	Metadata metadata `json:"metadata"`
	Details  struct {
		Name   string `json:"name"`
		Kind   string `json:"kind"`
		Causes []struct {
			Reason string `json:"reason"`
		} `json:"causes"`
	} `json:"details"`

	retryAfter time.Duration
}

func (e *status) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Message) }

// isAlien reports whether it was no API server who has answered.
func (e *status) isAlien() bool { return e.Kind != "Status" }

// noNamespace reports whether the namespace is not there, or about to go.
func (e *status) noNamespace() bool {
	if e.Code == http.StatusNotFound && e.Details.Kind == "namespaces" {
		return true
	}
	for _, c := range e.Details.Causes {
		if c.Reason == "NamespaceTerminating" {
			return true
		}
	}
	return false
}

func refusal(resp *http.Response, isJSON bool) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		return err
	}
	st := &status{}
	if !isJSON || json.Unmarshal(text, st) != nil || st.isAlien() {
		*st = status{Message: http.StatusText(resp.StatusCode)}
	}
	st.Code = resp.StatusCode
	if n, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16); err == nil {
		st.retryAfter = min(time.Duration(n)*time.Second, longestBusy)
	}
	return st
}

// isMissing reports whether an API server says that a lease is not there. One that knows no leases says 404 of whatever it is asked for.
func isMissing(err error, name string) bool {
	var st *status
	return isStatus(err, http.StatusNotFound) && errors.As(err, &st) && st.Details.Kind == "leases" && st.Details.Name == name
}

func isStatus(err error, code int) bool {
	var st *status
	return errors.As(err, &st) && st.Code == code && !st.isAlien() && !st.noNamespace()
}

// isStale reports whether a write was refused because its object is another one by now, or is there, or is not.
func isStale(err error) bool {
	var st *status
	return errors.As(err, &st) && (st.Code == http.StatusConflict || st.Code == http.StatusNotFound && !st.noNamespace())
}
