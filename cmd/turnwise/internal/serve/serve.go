// Package serve shows a survey of lines over HTTP: to people as a page, and to programs. It only reads. docs/serve.md
// describes its answers.
package serve

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"io"
	"log"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/lines"
)

//go:embed page
var files embed.FS

const (
	mostBrowsers = 1000
	mostAtOnce   = 2000                   // connections; who comes then waits until another one ends
	writeFor     = 10 * time.Second       // how long a slow reader has to take what is written
	answerFor    = 9 * time.Second        // how long an answer to a program may take; scrapers mostly wait for ten seconds
	endFor       = 500 * time.Millisecond // how long answers under way have when the page ends
)

// Page shows a survey.
type Page struct {
	survey *lines.Survey
	secret *[sha256.Size]byte // of the token that viewers must have; nil: none

	browsers atomic.Int64
	texts    texts

	mu     sync.Mutex
	series map[string]bool // the lines that have series of their own
}

// New makes a page. With a token, only those who send it may look. Without one, only those may look who have typed an
// address of this machine.
func New(survey *lines.Survey, token string) *Page {
	p := &Page{survey: survey, series: make(map[string]bool)}
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		p.secret = &sum
	}
	return p
}

// Serve serves the page and runs the survey until ctx ends. Then it returns within a second, whoever is connected.
func (p *Page) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           p.Handler(),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // it would log what browsers do wrong
	}
	go p.survey.Run(ctx)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(netutil.LimitListener(l, mostAtOnce)) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.Background(), endFor)
	defer cancel()
	if server.Shutdown(end) != nil {
		server.Close()
	}
	return nil
}

// Handler returns the page as a handler, for a survey that runs elsewhere.
func (p *Page) Handler() http.Handler {
	shown, data := http.NewServeMux(), http.NewServeMux()
	for _, name := range parts() {
		text, err := files.ReadFile("page/" + name)
		if err != nil {
			panic(err)
		}
		at := "/" + name
		if name == "index.html" {
			at = "/{$}"
		}
		shown.HandleFunc(at, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kinds[path.Ext(name)])
			w.Write(text)
		})
	}
	shown.HandleFunc("/healthz", p.health)
	shown.Handle("/", p.guarded(data))
	data.HandleFunc("/v1/lines", p.lines)
	data.HandleFunc("/v1/lines/{name...}", p.line)
	data.HandleFunc("/v1/check", p.check)
	data.HandleFunc("/v1/events", p.listen)
	data.HandleFunc("/metrics", p.metrics)
	data.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotFound, "there is no such page") })
	return p.careful(shown)
}

// kinds are what the files of the page are, whatever the system thinks of their names.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// parts returns the names of the files that the page is made of.
func parts() (names []string) {
	all, err := files.ReadDir("page")
	if err != nil {
		panic(err)
	}
	for _, f := range all {
		names = append(names, f.Name())
	}
	return names
}

// policy lets the page use only its own script, style and picture, and lets nobody show it within another page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// careful is what applies to all answers.
func (p *Page) careful(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerFor + writeFor))
		if r.ContentLength != 0 { // nobody reads it, and who never sends it would have the connection for ever
			_ = http.NewResponseController(w).SetReadDeadline(time.Now())
		}
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed, "this page only reads: use GET")
		case r.ContentLength != 0:
			refuse(w, http.StatusBadRequest, "this page only reads: send nothing with a GET")
		case p.secret == nil && !thisMachine(r.Host):
			// Somebody else's name may point here, and their page would then pass for ours. But such a page would not have a token.
			refuse(w, http.StatusForbidden, "this page is called 127.0.0.1 or localhost; others need turnwise serve --token-file")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// guarded shows next only to those who may look.
func (p *Page) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
			refuse(w, http.StatusForbidden, "another site has asked for this") // it cannot read the answer, but would make us ask
			return
		}
		if p.secret != nil {
			kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			sum := sha256.Sum256([]byte(token))
			if subtle.ConstantTimeCompare(sum[:], p.secret[:]) != 1 || !strings.EqualFold(kind, "Bearer") {
				w.Header().Set("WWW-Authenticate", "Bearer")
				refuse(w, http.StatusUnauthorized, "the token is missing or wrong: send Authorization: Bearer TOKEN")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// thisMachine reports whether a Host header means this machine, whatever the resolver says.
func thisMachine(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
