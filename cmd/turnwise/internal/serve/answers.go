package serve

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/lines"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
	"github.com/turnwise/turnwise/coord"
)

// answer is what a program gets if it gets neither a line nor a board.
type answer struct {
	Version int    `json:"v"`
	Line    string `json:"line,omitempty"`
	Token   string `json:"token,omitempty"`
	Holds   *bool  `json:"holds,omitempty"`
	Error   string `json:"error,omitempty"`
}

func reply(w http.ResponseWriter, code int, v any) { send(w, code, status.JSON(v)) }

func send(w http.ResponseWriter, code int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(text)
}

func refuse(w http.ResponseWriter, code int, why string) {
	reply(w, code, answer{Version: lines.Version, Error: why})
}

// unknown says why a line could not be read, and by the code whose fault that is.
func unknown(err error) (code int, why string) {
	if errors.Is(err, coord.ErrInvalidName) {
		return http.StatusBadRequest, text(err)
	}
	if errors.Is(err, lines.ErrNotShown) {
		return http.StatusNotFound, text(err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return http.StatusServiceUnavailable, "the service has not answered in time"
	}
	return http.StatusServiceUnavailable, text(err)
}

func text(err error) string {
	return coord.Printable(strings.ReplaceAll(err.Error(), "turnwise: ", ""))
}

// health says that the page is served. It asks the service nothing and tells nothing of it, so anybody may know.
func (p *Page) health(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, struct {
		Version int    `json:"v"`
		Status  string `json:"status"`
	}{lines.Version, "serving"})
}

func (p *Page) lines(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerFor)
	defer cancel()
	send(w, http.StatusOK, p.texts.json(p.survey.Fresh(ctx)))
}

func (p *Page) line(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerFor)
	defer cancel()
	l, err := p.survey.Line(ctx, r.PathValue("name"))
	if err != nil {
		code, why := unknown(err)
		refuse(w, code, why)
		return
	}
	reply(w, http.StatusOK, struct {
		Version int `json:"v"`
		lines.Line
	}{lines.Version, l})
}

func (p *Page) check(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	name := query.Get("line")
	token, err := strconv.ParseInt(query.Get("token"), 10, 64)
	if err != nil || len(query["line"]) != 1 || len(query["token"]) != 1 {
		refuse(w, http.StatusBadRequest, "say which line and which token: /v1/check?line=NAME&token=N")
		return
	}
	a := answer{Version: lines.Version, Line: name, Token: strconv.FormatInt(token, 10)}
	ctx, cancel := context.WithTimeout(r.Context(), answerFor)
	defer cancel()
	nodes, err := p.survey.Ask(ctx, name)
	if err != nil {
		code := 0
		if code, a.Error = unknown(err); code == http.StatusBadRequest {
			a.Line, a.Token = "", ""
		}
		reply(w, code, a)
		return
	}
	holds := false
	for _, n := range nodes {
		holds = holds || n.Holds && int64(n.Token) == token
	}
	a.Holds = &holds
	if holds {
		reply(w, http.StatusOK, a)
	} else {
		reply(w, http.StatusConflict, a)
	}
}
