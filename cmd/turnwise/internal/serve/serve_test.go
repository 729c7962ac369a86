package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/net/netutil"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/lines"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/group"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/shards"
)

// counting counts what a service is asked, and lets it fail.
type counting struct {
	*coord.Client
	asked atomic.Int64
	fails atomic.Pointer[error]
}

func (c *counting) fail() error {
	c.asked.Add(1)
	if err := c.fails.Load(); err != nil {
		return *err
	}
	return nil
}

func (c *counting) Lines(ctx context.Context, prefix string) ([]string, error) {
	if err := c.fail(); err != nil {
		return nil, err
	}
	return c.Client.Lines(ctx, prefix)
}

func (c *counting) Line(ctx context.Context, name string) ([]coord.Node, error) {
	if err := c.fail(); err != nil {
		return nil, err
	}
	return c.Client.Line(ctx, name)
}

// scene is a page that is served, on a service in this process.
type scene struct {
	t       *testing.T
	source  *counting
	service *mem.Service
	page    *Page
	url     string
	end     func() error
}

func serve(t *testing.T, token string) *scene {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) }) // when all is closed
	service := mem.New()
	t.Cleanup(service.Close)
	s := &scene{t: t, service: service, source: &counting{Client: service.Client()}}
	s.page = New(lines.New(s.source, "mem", "", lines.Few), token)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.url = "http://" + l.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.page.Serve(ctx, l) }()
	s.end = sync.OnceValue(func() error { stop(); return <-done })
	t.Cleanup(func() { assert.NoError(t, s.end()) })
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return s
}

func (s *scene) lock(name, label string) *coord.Hold {
	s.t.Helper()
	h, err := mutex.New(s.service.Client(coord.WithOwnerLabel(label)), name).Lock(context.Background())
	require.NoError(s.t, err)
	return h
}

func (s *scene) get(path string, headers ...string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.url+path, nil)
	require.NoError(s.t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(s.t, err)
	assert.Equal(s.t, "no-store", answer.Header.Get("Cache-Control"))
	assert.Contains(s.t, answer.Header.Get("Content-Security-Policy"), "default-src 'none'")
	return answer.StatusCode, string(text)
}

func TestWhetherATokenStillHolds(t *testing.T) {
	s := serve(t, "")
	first := s.lock("shop/orders", "")
	second := s.lock("50% / ü?&#", "") // any name is a name
	ask := func(line string, token any) (int, string) {
		t.Helper()
		return s.get("/v1/check?line=" + line + "&token=" + fmt.Sprint(token))
	}
	code, text := ask("shop/orders", first.Token())
	assert.Equal(t, 200, code)
	assert.JSONEq(t, fmt.Sprintf(`{"v":1,"line":"shop/orders","token":"%d","holds":true}`, first.Token()), text)
	code, _ = ask("50%25%20%2F%20%C3%BC%3F%26%23", second.Token())
	assert.Equal(t, 200, code)

	code, text = ask("shop/orders", first.Token()+1)
	assert.Equal(t, 409, code)
	assert.Contains(t, text, `"holds":false`)
	code, _ = ask("nobody", 1)
	assert.Equal(t, 409, code)

	require.NoError(t, first.Release())
	code, _ = ask("shop/orders", first.Token())
	assert.Equal(t, 409, code, "it was released before it was asked")

	for _, bad := range []string{"", "?line=a", "?token=1", "?line=a&token=x", "?line=a&token=1.5", "?line=a&token=99999999999999999999",
		"?line=a&line=b&token=1", "?line=a&token=1&token=2", "?line=&token=1", "?line=/&token=1", "?line=a%00&token=1",
		"?line=a%FF&token=1", "?line=../a&token=1"} {
		code, text := s.get("/v1/check" + bad)
		assert.Equal(t, 400, code, bad)
		assert.NotContains(t, text, "holds", bad)
	}

	gone := fmt.Errorf("%w: gone", coord.ErrUnavailable)
	s.source.fails.Store(&gone)
	code, text = ask("shop/orders", 1)
	assert.Equal(t, 503, code)
	assert.JSONEq(t, `{"v":1,"line":"shop/orders","token":"1","error":"service is out of reach: gone"}`, text)
	denied := error(coord.ErrDenied)
	s.source.fails.Store(&denied)
	code, _ = ask("shop/orders", 1)
	assert.Equal(t, 503, code)
}

// A page of some lines is often there since those who look at it are not to see the others.
func TestAPageOfSomeLinesTellsNothingOfOthers(t *testing.T) {
	s := serve(t, "")
	h := s.lock("secret/orders", "whoever")
	shop := s.lock("shop/orders", "")
	some := New(lines.New(s.source, "mem", "shop/", lines.Few), "").Handler()
	ask := func(path string) (int, string) {
		t.Helper()
		w := httptest.NewRecorder()
		some.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
		return w.Code, w.Body.String()
	}
	for _, path := range []string{"/v1/lines/secret/orders", fmt.Sprintf("/v1/check?line=secret/orders&token=%d", h.Token()), "/v1/lines/shop", "/v1/lines/shopping"} {
		code, text := ask(path)
		assert.Equal(t, 404, code, path)
		assert.NotContains(t, text, "whoever", path)
		assert.NotContains(t, text, "holds", path)
	}
	code, _ := ask("/v1/lines/shop/orders")
	assert.Equal(t, 200, code)
	code, _ = ask(fmt.Sprintf("/v1/check?line=shop/orders&token=%d", shop.Token()))
	assert.Equal(t, 200, code)
}

func TestLinesAsJSON(t *testing.T) {
	s := serve(t, "")
	hold := s.lock("shop/orders", `<script>"`)
	s.lock("a", "")
	code, text := s.get("/v1/lines")
	assert.Equal(t, 200, code)
	assert.NotContains(t, text, "<script>", "it is escaped, should somebody take it for a page")
	var board lines.Board
	require.NoError(t, json.Unmarshal([]byte(text), &board))
	assert.Equal(t, lines.Live, board.State)
	require.Len(t, board.Lines, 2)
	assert.Equal(t, "shop/orders", board.Lines[1].Name)
	assert.Equal(t, `<script>"`, board.Lines[1].Contenders[0].Label)
	assert.Equal(t, fmt.Sprint(hold.Token()), board.Lines[1].Contenders[0].Token)

	code, text = s.get("/v1/lines/shop/orders")
	assert.Equal(t, 200, code)
	assert.Contains(t, text, `{"v":1,"name":"shop/orders","state":"live"`)
	code, text = s.get("/v1/lines/nobody")
	assert.Equal(t, 200, code)
	assert.Contains(t, text, `"contenders":[]`)
	for _, bad := range []string{"/v1/lines/a%00", "/v1/lines/a%2F%2Fb"} {
		code, _ = s.get(bad)
		assert.Equal(t, 400, code, bad)
	}
	code, _ = s.get("/v1/nothing")
	assert.Equal(t, 404, code)

	gone := error(coord.ErrUnavailable)
	s.source.fails.Store(&gone)
	code, _ = s.get("/v1/lines/a")
	assert.Equal(t, 503, code)
}

// However many programs ask for all lines, a board is encoded once.
func TestABoardIsEncodedOnce(t *testing.T) {
	s := serve(t, "")
	s.lock("a", "")
	b := s.page.survey.Fresh(t.Context())
	text := s.page.texts.json(b)
	assert.Same(t, &text[0], &s.page.texts.json(b)[0])
	other := *b
	other.Lines = nil
	assert.NotContains(t, string(s.page.texts.json(&other)), `"a"`)
}

func TestItOnlyReads(t *testing.T) {
	s := serve(t, "")
	for _, path := range []string{"/", "/v1/lines", "/v1/check?line=a&token=1", "/v1/events", "/metrics", "/nothing"} {
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"} {
			r, err := http.NewRequest(method, s.url+path, strings.NewReader("x=1"))
			require.NoError(t, err)
			answer, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			answer.Body.Close()
			assert.Equal(t, 405, answer.StatusCode, method+" "+path)
			assert.Equal(t, "GET, HEAD", answer.Header.Get("Allow"))
		}
		if path != "/nothing" {
			answer, err := http.Head(s.url + path)
			require.NoError(t, err)
			answer.Body.Close()
			assert.Less(t, answer.StatusCode, 500, path)
		}
	}
}

func TestWhoMayLook(t *testing.T) {
	t.Run("on this machine", func(t *testing.T) {
		s := serve(t, "")
		for host, want := range map[string]int{
			"127.0.0.1": 200, "127.0.0.1:4646": 200, "localhost": 200, "LOCALHOST.:1": 200, "[::1]:4646": 200, "127.8.9.1": 200,
			"evil.example": 403, "127.0.0.1.evil.example:4646": 403, "localhost.evil.example": 403, "10.0.0.1": 403, "0.0.0.0": 403,
			"notlocalhost": 403, "[::ffff:10.0.0.1]": 403, "2130706433": 403,
		} {
			for _, path := range []string{"/", "/v1/lines/a", "/page.js"} {
				code, _ := s.get(path, "Host", host)
				assert.Equal(t, want, code, host+path)
			}
		}
		for site, want := range map[string]int{"same-origin": 200, "none": 200, "cross-site": 403, "same-site": 403} {
			code, _ := s.get("/v1/lines/a", "Sec-Fetch-Site", site)
			assert.Equal(t, want, code, site)
			code, _ = s.get("/", "Sec-Fetch-Site", site)
			assert.Equal(t, 200, code, "a link to the page")
		}
	})
	t.Run("with a token", func(t *testing.T) {
		s := serve(t, "0123456789abcdef")
		for given, want := range map[string]int{
			"": 401, "Bearer 0123456789abcdef": 200, "bearer 0123456789abcdef": 200, "Bearer 0123456789abcde": 401,
			"Bearer 0123456789abcdef0": 401,
			"Basic 0123456789abcdef":   401, "0123456789abcdef": 401, "Bearer": 401, "Bearer ": 401,
		} {
			for _, path := range []string{"/v1/lines/a", "/v1/lines", "/metrics"} {
				code, text := s.get(path, "Authorization", given, "Host", "turnwise.example")
				assert.Equal(t, want, code, given+" "+path)
				if want == 401 {
					assert.Contains(t, text, "the token is missing or wrong")
				}
			}
		}
		for _, path := range []string{"/v1/check?line=a&token=1", "/v1/events", "/nothing", "/v1/lines/a?token=0123456789abcdef"} {
			code, _ := s.get(path)
			assert.Equal(t, 401, code, path)
		}
		assert.LessOrEqual(t, s.source.asked.Load(), int64(20), "those without a token have nothing asked")
		code, _ := s.get("/")
		assert.Equal(t, 200, code, "the page itself, which asks for it")
	})
}

// reader is a browser.
type reader struct {
	answer *http.Response
	lines  *bufio.Scanner
}

func (s *scene) listen() *reader {
	s.t.Helper()
	answer, err := http.Get(s.url + "/v1/events")
	require.NoError(s.t, err)
	s.t.Cleanup(func() { answer.Body.Close() })
	require.Equal(s.t, 200, answer.StatusCode)
	require.Equal(s.t, "text/event-stream", answer.Header.Get("Content-Type"))
	r := &reader{answer, bufio.NewScanner(answer.Body)}
	r.lines.Buffer(nil, 64<<20)
	return r
}

func (r *reader) next() (kind string, c change, err error) {
	for r.lines.Scan() {
		switch line := r.lines.Text(); {
		case strings.HasPrefix(line, "event: "):
			kind = line[7:]
		case strings.HasPrefix(line, "data: "):
			return kind, c, json.Unmarshal([]byte(line[6:]), &c)
		}
	}
	return "", c, fmt.Errorf("the end: %w", r.lines.Err())
}

func TestABrowserHearsOfChanges(t *testing.T) {
	s := serve(t, "")
	s.lock("a", "")
	r := s.listen()
	kind, c, err := r.next()
	require.NoError(t, err)
	assert.Equal(t, "board", kind)
	until := func(is func(c change) bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !is(c); {
			kind, c, err = r.next()
			require.NoError(t, err)
			assert.Equal(t, "change", kind)
			require.True(t, time.Now().Before(end))
		}
	}
	until(func(c change) bool {
		return c.State == lines.Live && len(c.Lines) == 1 && c.Lines[0].Name == "a" && c.Lines[0].Holding == 1
	})
	h := s.lock("b", "")
	until(func(c change) bool { return len(c.Lines) == 1 && c.Lines[0].Name == "b" })
	require.NoError(t, h.Release())
	until(func(c change) bool { return len(c.Gone) == 1 && c.Gone[0] == "b" })
	before := c.Time
	until(func(c change) bool { return c.Time.After(before) }) // two boards may be of the same millisecond
	assert.Empty(t, c.Lines, "what has not changed is not said again")
}

func TestFiveHundredBrowsers(t *testing.T) {
	s := serve(t, "")
	s.lock("a", "")
	var all sync.WaitGroup
	start := time.Now()
	for range 500 {
		r := s.listen()
		all.Go(func() {
			for range 6 {
				if _, _, err := r.next(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	seconds := time.Since(start).Seconds()
	assert.LessOrEqual(t, float64(s.source.asked.Load()), 4+2*seconds, "in %v s", seconds)
	asked := s.source.asked.Load()
	t.Log(asked, "questions in", seconds, "s")
}

// Browsers that never read hold nobody up, and nothing is kept for them.
func TestABrowserThatNeverReads(t *testing.T) {
	s := serve(t, "")
	for i := range 300 {
		s.lock(fmt.Sprint("line ", i), strings.Repeat("x", 200))
	}
	for range 50 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(1024))
		_, err = conn.Write([]byte("GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"))
		require.NoError(t, err)
	}
	r := s.listen()
	for range 6 {
		start := time.Now()
		_, _, err := r.next()
		require.NoError(t, err)
		assert.Less(t, time.Since(start), 20*time.Second)
	}
	start := time.Now()
	require.NoError(t, s.end())
	assert.Less(t, time.Since(start), 5*time.Second)
}

// dated is an answer that is written to nobody, and knows until when it may take.
type dated struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (d *dated) SetWriteDeadline(t time.Time) error {
	d.until = t
	return nil
}

// Who asks and does not read is left soon, whatever he asked for.
func TestWhoNeverReadsAnAnswerIsLeft(t *testing.T) {
	s := serve(t, "")
	for _, path := range []string{"/", "/page.js", "/v1/lines", "/v1/lines/a", "/metrics", "/healthz", "/nothing"} {
		d := &dated{ResponseRecorder: httptest.NewRecorder()}
		s.page.Handler().ServeHTTP(d, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
		assert.False(t, d.until.IsZero(), "%s may take for ever", path)
		assert.WithinRange(t, d.until, time.Now().Add(time.Second), time.Now().Add(time.Minute), path)
	}
}

// Who announces something to read and never sends it has the connection no longer than others.
func TestWhoSendsNothingOfWhatHeAnnouncedIsLeft(t *testing.T) {
	s := serve(t, "")
	for _, announced := range []string{"Content-Length: 1000", "Transfer-Encoding: chunked"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Write([]byte("GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + announced + "\r\n\r\n"))
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
		said, err := io.ReadAll(conn)
		require.NoError(t, err, "%s: the connection is kept", announced)
		assert.Contains(t, string(said), "400 Bad Request")
	}
}

func TestThereIsAnEndToConnections(t *testing.T) {
	defer goleak.VerifyNone(t)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := netutil.LimitListener(plain, 2)
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	for range 4 {
		c, err := net.Dial("tcp", plain.Addr().String())
		require.NoError(t, err)
		defer c.Close()
	}
	first, second := <-accepted, <-accepted
	select {
	case <-accepted:
		t.Fatal("a third one has a place")
	case <-time.After(100 * time.Millisecond):
	}
	first.Close()
	first.Close()
	third := <-accepted
	require.NoError(t, l.Close())
	_, more := <-accepted
	assert.False(t, more, "it has two places again")
	second.Close()
	third.Close()
}

func TestItEndsAtOnce(t *testing.T) {
	s := serve(t, "")
	var readers []*reader
	for range 100 {
		readers = append(readers, s.listen())
	}
	halfway, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer halfway.Close()
	_, err = halfway.Write([]byte("GET /v1/ev"))
	require.NoError(t, err)
	start := time.Now()
	require.NoError(t, s.end())
	took := time.Since(start)
	t.Log(took)
	assert.Less(t, took, 5*time.Second) // it is half a second, unless the machine stands still
	for _, r := range readers {
		for _, err := "", error(nil); err == nil; _, _, err = r.next() {
		}
	}
}

func TestThereIsAnEndToBrowsers(t *testing.T) {
	s := serve(t, "")
	s.page.browsers.Store(mostBrowsers)
	code, _ := s.get("/v1/events")
	assert.Equal(t, 503, code)
	s.page.browsers.Store(0)
	s.listen()
}

func TestMetrics(t *testing.T) {
	s := serve(t, "")
	s.lock(`quoted "line" \`, "")
	code, text := s.get("/metrics")
	assert.Equal(t, 200, code)
	assert.Contains(t, text, "\nturnwise_up 1\n")
	assert.Contains(t, text, "\nturnwise_lines 1\n")
	assert.Contains(t, text, `turnwise_line_holders{line="quoted \"line\" \\"} 1`+"\n")
	assert.Regexp(t, `\nturnwise_line_first_seconds\{line="quoted \\"line\\" \\\\"\} [0-9.]+\n`, text)

	gone := error(coord.ErrUnavailable)
	s.source.fails.Store(&gone)
	time.Sleep(1100 * time.Millisecond)
	start := time.Now()
	_, text = s.get("/metrics")
	assert.Less(t, time.Since(start), answerFor, "it waits for what will not come")
	assert.Contains(t, text, "\nturnwise_up 0\n")
	assert.Contains(t, text, "\nturnwise_question_errors_total 1\n")
}

// A job that does not end can be told from one that has waited for long and has just begun.
func TestForHowLongTheFirstHasStoodThere(t *testing.T) {
	p := New(lines.New(nil, "", "", lines.Few), "")
	now := time.Now()
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	b := &lines.Board{Lines: []lines.Line{
		{Name: "backup", AsOf: ago(0), Contenders: []lines.Contender{
			{Holder: &status.Holder{Since: *ago(3 * time.Hour), Turn: ago(time.Minute)}, Holds: true}, {Holder: &status.Holder{Since: *ago(2 * time.Hour)}}}},
		{Name: "stuck", AsOf: ago(0), Contenders: []lines.Contender{{Holder: &status.Holder{Since: *ago(5 * time.Hour)}, Holds: true}}},
		{Name: "nobody says", AsOf: ago(0), Contenders: []lines.Contender{{Holder: &status.Holder{}, Holds: true}}},
		{Name: "not read"},
	}}
	text := string(p.write(b, now))
	assert.Contains(t, text, `turnwise_line_first_seconds{line="backup"} 60.000`+"\n")
	assert.Contains(t, text, `turnwise_line_first_seconds{line="stuck"} 18000.000`+"\n")
	assert.Contains(t, text, `turnwise_line_first_seconds{line="nobody says"} 0.000`+"\n")
	assert.NotContains(t, text, "not read")
	assert.Contains(t, text, "\nturnwise_oldest_first_seconds 18000.000\n")
}

// Leaders, their candidates, members and owners of shards stand for weeks and are well, so they are in no total that wakes anybody. Whoever holds or
// awaits a lock is, also in the line of an election.
func TestWhoStandsForLongByDesignWakesNobody(t *testing.T) {
	s := serve(t, "")
	ctx, end := context.WithCancel(context.Background())
	var waiting sync.WaitGroup
	t.Cleanup(waiting.Wait)
	t.Cleanup(end)
	wait := func(acquire func(*coord.Client) error) {
		c := s.service.Client()
		waiting.Go(func() { assert.ErrorIs(t, acquire(c), context.Canceled) })
	}
	inAWeek := func() string {
		t.Helper()
		time.Sleep(1100 * time.Millisecond) // until what was read is read again
		return string(s.page.write(s.page.survey.Fresh(ctx), time.Now().Add(7*24*time.Hour)))
	}

	_, err := election.New(s.service.Client(), "seat").Campaign(ctx, nil)
	require.NoError(t, err)
	wait(func(c *coord.Client) error { _, err := election.New(c, "seat").Campaign(ctx, nil); return err })
	_, err = group.New(s.service.Client(), "workers").Join(ctx, nil)
	require.NoError(t, err)
	owner, owned := s.service.Client(), make(chan int, 2)
	waiting.Go(func() {
		assert.NoError(t, shards.New(owner, "jobs", 2).Run(ctx, func(ctx context.Context, shard int, _ *coord.Hold) error {
			owned <- shard
			<-ctx.Done()
			return nil
		}))
	})
	<-owned
	<-owned
	require.Eventually(t, func() bool {
		in, err := s.source.Client.Line(ctx, "seat")
		return err == nil && len(in) == 2
	}, 10*time.Second, 10*time.Millisecond)
	text := inAWeek()
	assert.Contains(t, text, "\nturnwise_holders 5\n")
	assert.Contains(t, text, "\nturnwise_oldest_first_seconds 0.000\n")
	assert.Contains(t, text, "\nturnwise_oldest_wait_seconds 0.000\n")
	for _, series := range []string{`line_first_seconds{line="seat"}`, `line_first_seconds{line="workers"}`, `line_first_seconds{line="jobs/1"}`, `line_oldest_wait_seconds{line="seat"}`} {
		assert.Contains(t, text, "\nturnwise_"+series+" 6048", "a line has its own numbers")
	}

	s.lock("jobs/3rd", "") // no shard's name
	assert.Contains(t, inAWeek(), "\nturnwise_oldest_first_seconds 6048")

	wait(func(c *coord.Client) error { _, err := mutex.New(c, "seat").Lock(ctx); return err })
	require.Eventually(t, func() bool {
		in, err := s.source.Client.Line(ctx, "seat")
		return err == nil && len(in) == 3
	}, 10*time.Second, 10*time.Millisecond)
	assert.Contains(t, inAWeek(), "\nturnwise_oldest_wait_seconds 6048")
}

// Whoever looks after turnwise serve itself needs no token, and makes nobody ask the service.
func TestItsHealthIsNoSecret(t *testing.T) {
	for _, token := range []string{"", "0123456789abcdef"} {
		t.Run("token "+token, func(t *testing.T) {
			s := serve(t, token)
			gone := error(coord.ErrUnavailable)
			s.source.fails.Store(&gone)
			code, text := s.get("/healthz")
			assert.Equal(t, 200, code)
			assert.JSONEq(t, `{"v":1,"status":"serving"}`, text)
			assert.Zero(t, s.source.asked.Load())
		})
	}
}

// However many lines there are, and come and go, there are few series.
func TestSeriesAreBounded(t *testing.T) {
	p := New(lines.New(nil, "", "", lines.Few), "")
	for round := range 10 {
		b := &lines.Board{}
		for i := range 10_000 {
			now := time.Now()
			b.Lines = append(b.Lines, lines.Line{Name: fmt.Sprintf("line %d %05d", round, i), AsOf: &now})
		}
		text := string(p.write(b, time.Now()))
		want := 0
		if round == 0 {
			want = mostSeries
		}
		assert.Equal(t, 4*want, strings.Count(text, "{line="))
		assert.Contains(t, text, fmt.Sprintf("turnwise_lines_without_series %d\n", 10_000-want))
		assert.Contains(t, text, "turnwise_lines 10000\n")
	}
}

func TestThePageNeedsNothingElse(t *testing.T) {
	p := New(lines.New(nil, "", "", lines.Few), "").Handler()
	for path, kind := range map[string]string{
		"/": "text/html", "/page.css": "text/css", "/icon.svg": "image/svg",
		"/words.js": "text/javascript", "/rows.js": "text/javascript", "/circles.js": "text/javascript", "/picture.js": "text/javascript", "/page.js": "text/javascript",
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", path, nil)
		r.Host = "localhost"
		p.ServeHTTP(w, r)
		assert.Equal(t, 200, w.Code, path)
		assert.True(t, strings.HasPrefix(w.Header().Get("Content-Type"), kind), path)
		text := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", "")
		for _, elsewhere := range []string{"http:", "https:", "src=\"//", "url(h", "@import", "innerHTML", "insertAdjacentHTML",
			"document.write", "eval(", " style=", " onclick="} {
			assert.NotContains(t, text, elsewhere, path)
		}
	}
}

func FuzzHosts(f *testing.F) {
	for _, host := range []string{"localhost:1", "[::1]", "127.0.0.1", "evil.example", "[[::1]]", ":", "[", "localhost.:x"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if !thisMachine(host) {
			return
		}
		lower := strings.ToLower(host)
		if !strings.Contains(lower, "localhost") && !strings.Contains(lower, "127.") && !strings.Contains(lower, ":") {
			t.Errorf("%q", host)
		}
		if strings.Contains(lower, "evil") {
			t.Errorf("%q", host)
		}
	})
}
