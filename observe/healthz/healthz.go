// Package healthz answers probes of a service that uses turnwise.
//
//	mux.Handle("/readyz", healthz.Handler(client, ""))
//
// Use it to know, and to keep work away from a process that cannot get its locks. Do not have a process restarted because of it:
// while the service is away, that would restart all of them, and none of them would be any better off.
package healthz

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord"
)

// Handler answers 200 if nothing is known to be wrong between the client and its service, and 503 otherwise. The body says
// more, as JSON: it has the fields of coord.Health. It may name the service's addresses, so it is not for everybody's eyes.
//
// Usually it asks the service nothing, and so answers at once, whatever has become of the service. If line is not empty, a request
// with the parameter ask, as in /readyz?ask, has the service asked who is first in that line. That takes as long as a request of
// the client may take at most. However many probes come, the service is asked once a second.
func Handler(c *coord.Client, line string) http.Handler { return &handler{client: c, line: line} }

type handler struct {
	client *coord.Client
	line   string

	mu    sync.Mutex // held while the service is asked
	asked time.Time
	err   error // its answer
}

// report is what a probe reads.
type report struct {
	OK        bool       `json:"ok"`
	Error     string     `json:"error,omitempty"`
	Session   bool       `json:"session"`
	Until     *time.Time `json:"until,omitempty"`
	Holds     int        `json:"holds"`
	Waiters   int        `json:"waiters"`
	Recovery  string     `json:"recovery,omitempty"`
	Trouble   string     `json:"trouble,omitempty"`
	TroubleAt *time.Time `json:"trouble_at,omitempty"`
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "GET or HEAD", http.StatusMethodNotAllowed)
		return
	}
	now := h.client.Health()
	if h.line != "" && now.Err == nil && r.URL.Query().Has("ask") {
		now.Err = h.ask(r.Context())
	}
	answer := report{OK: now.Err == nil, Session: now.Session, Until: known(now.Until), Holds: now.Holds, Waiters: now.Waiters, TroubleAt: known(now.TroubleAt)}
	if now.Err != nil {
		answer.Error = now.Err.Error()
	}
	if now.Trouble != nil {
		answer.Trouble = now.Trouble.Error()
	}
	if now.Recovery > 0 {
		answer.Recovery = now.Recovery.Round(100 * time.Millisecond).String()
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !answer.OK {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// ask asks the service, unless it was asked within the last second.
func (h *handler) ask(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.asked) < time.Second {
		return h.err
	}
	// The answer is for all who come within a second: one that hangs up must not decide it.
	_, h.err = h.client.First(context.WithoutCancel(ctx), h.line)
	h.asked = time.Now()
	return h.err
}
