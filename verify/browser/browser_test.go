//go:build linux

package browser

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/file"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

var pictures = flag.String("pictures", "", "keep screenshots in this `folder`")

var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "turnwise")
	if err == nil {
		program = filepath.Join(dir, "turnwise")
		build := exec.Command("go", "build", "-trimpath", "-o", program, ".")
		build.Dir = "../../cmd/turnwise"
		build.Stderr = os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := servers.Main(m)
	os.RemoveAll(dir)
	os.Exit(code)
}

// tab is a tab of a browser.
type tab struct {
	context.Context
	t *testing.T

	mu     sync.Mutex
	faults []string // what the browser complained about
}

// look opens a page in a window of that size, and waits until it is live.
func look(t *testing.T, url string, width, height int64, scheme string) *tab {
	t.Helper()
	b := openTab(t, url, width, height, scheme)
	b.until(`state() === 'live'`)
	return b
}

func openTab(t *testing.T, url string, width, height int64, scheme string) *tab {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		t.Skip("there is no Chromium here")
	}
	profile, err := os.MkdirTemp(filepath.Dir(program), "profile") // its processes write there for a moment after it has ended
	require.NoError(t, err)
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.UserDataDir(profile))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx); cancel() })
	ctx, cancel = context.WithTimeout(ctx, 3*time.Minute)
	t.Cleanup(cancel)
	b := &tab{Context: ctx, t: t}
	chromedp.ListenTarget(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.faults = append(b.faults, e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			b.faults = append(b.faults, e.Entry.Text)
		}
	})
	b.run(log.Enable(), chromedp.EmulateViewport(width, height),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		chromedp.Navigate(url))
	b.eval(`window.state = () => document.getElementById('state').dataset.state;
		window.told = () => document.getElementById('state').textContent;
		window.count = (q) => [...document.querySelectorAll(q)].filter((e) => e.checkVisibility()).length; 0`, new(int))
	return b
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Run(b, actions...))
}

func (b *tab) eval(script string, into any) {
	b.t.Helper()
	b.run(chromedp.Evaluate(script, into))
}

func (b *tab) text(script string) (text string) {
	b.t.Helper()
	b.eval("String("+script+")", &text)
	return text
}

// until waits until something is so.
func (b *tab) until(script string) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var is bool
		b.eval("Boolean("+script+")", &is)
		if is {
			return
		}
		if time.Now().After(end) {
			b.picture("failed")
			b.t.Fatalf("never: %s; the page says %q", script, b.text("told()"))
		}
	}
}

func (b *tab) picture(name string) {
	if *pictures == "" {
		return
	}
	var png []byte
	b.run(chromedp.CaptureScreenshot(&png))
	require.NoError(b.t, os.WriteFile(filepath.Join(*pictures, name+".png"), png, 0o600))
}

// isSound fails the test unless the page has no faults and is no wider than the window.
func (b *tab) isSound() {
	b.t.Helper()
	assert.Equal(b.t, "true", b.text(`document.documentElement.scrollWidth <= window.innerWidth`), "it is wider than the window")
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.Empty(b.t, b.faults)
}

// serving is a running turnwise serve.
type serving struct {
	*exec.Cmd
	url string
}

func serve(t *testing.T, backend string, args ...string) *serving {
	t.Helper()
	s := &serving{Cmd: exec.Command(program, append([]string{"serve", "-b", backend, "--http", "127.0.0.1:0"}, args...)...)}
	s.Stderr = os.Stderr
	out, err := s.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.Start())
	t.Cleanup(func() { s.Process.Kill(); s.Wait() })
	first, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	s.url = strings.TrimSpace(first)
	return s
}

// folder makes a service with that many held lines. Others wait for the first of them.
func folder(t *testing.T, lines int) string {
	t.Helper()
	dir := t.TempDir()
	holder := client(t, dir, "nightly-backup")
	name := func(i int) string { return fmt.Sprintf("shop/orders/%03d", i) }
	for i := range lines {
		_, err := mutex.New(holder, name(i)).Lock(t.Context())
		require.NoError(t, err)
	}
	for i := range 30 * min(lines, 1) {
		c := client(t, dir, fmt.Sprint("report ", i))
		go mutex.New(c, name(0)).Lock(t.Context())
	}
	return "file://" + dir
}

func client(t *testing.T, dir, label string) *coord.Client {
	t.Helper()
	c, err := file.Connect(context.Background(), dir, file.WithClient(coord.WithOwnerLabel(label)))
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Close()
		c.Driver().Close(context.Background()) // it would stay open for the holds that are never released
	})
	return c
}

func TestThePageInAllSizes(t *testing.T) {
	for _, lines := range []int{0, 3, 500} {
		s := serve(t, folder(t, lines))
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{390, 1280} {
				name := fmt.Sprintf("%d lines, %s, %d wide", lines, scheme, width)
				t.Run(name, func(t *testing.T) {
					b := look(t, s.url, width, 900, scheme)
					b.until(fmt.Sprintf(`count('#rows > tr') === %d`, lines))
					b.isSound()
					if lines > 0 {
						b.until(`document.querySelector('#rows .busy')?.textContent === '30'`)
						b.picture(name)
						b.run(chromedp.Click(`#rows .name`, chromedp.ByQuery))
						assert.Equal(t, "20", b.text(`count('tr.inner tbody tr')`))
						assert.Contains(t, b.text(`document.querySelector('tr.inner').innerText`), "and 11 more")
						b.isSound()
						b.picture(name + ", open")
						b.run(chromedp.Evaluate(`document.getElementById('picture').scrollIntoView()`, nil))
						b.picture(name + ", graph")
					} else {
						b.picture(name)
						assert.Equal(t, "Nobody stands in any line.", b.text(`document.getElementById('sum').textContent`))
					}
					if lines == 500 {
						b.run(chromedp.SendKeys(`#filter`, "orders/49", chromedp.ByQuery))
						b.until(`count('#rows > tr') === 10`)
					}
				})
			}
		}
	}
}

func TestThePageFollows(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, "file://"+dir)
	b := look(t, s.url, 1280, 900, "light")
	c := client(t, dir, "worker")
	hold, err := mutex.New(c, "b").Lock(t.Context())
	require.NoError(t, err)
	b.until(`count('#rows > tr') === 1`)
	for _, name := range []string{"a", "c", "é", "\U00010000", "\uff5e"} {
		_, err := mutex.New(c, name).Lock(t.Context())
		require.NoError(t, err)
	}
	b.until(`count('#rows > tr') === 6`)
	assert.Equal(t, "a b c é \uff5e \U00010000", b.text(`[...document.querySelectorAll('.name')].map((e) => e.textContent).join(' ')`))
	require.NoError(t, hold.Release())
	b.until(`count('#rows > tr') === 5`)
	b.isSound()
}

// Names, labels and hosts are text that others wrote.
func TestWhatOthersWriteIsText(t *testing.T) {
	dir := t.TempDir()
	texts := []string{
		`<img src=x onerror="window.pwned=1">`, `<script>window.pwned=1<`, `"><svg onload=window.pwned=1>`, `javascript:window.pwned=1`,
		`{{7*7}}`, `'"</title></script>`, `&lt;b&gt;`, strings.Repeat("W", 200), `__proto__`, `constructor`,
	}
	var holds []*coord.Hold
	for i, x := range texts {
		c := client(t, dir, x+"\u202e\x1b[2J\x00\nnext")
		name := strings.ReplaceAll(x, "/", "|")
		h, err := mutex.New(c, name).Lock(t.Context())
		require.NoError(t, err)
		holds = append(holds, h)
		go mutex.New(client(t, dir, texts[(i+1)%len(texts)]), name).Lock(t.Context())
	}
	require.NotEmpty(t, holds)
	s := serve(t, "file://"+dir)
	for _, width := range []int64{390, 1280} {
		b := look(t, s.url, width, 900, "light")
		b.until(fmt.Sprintf(`count('#rows > tr') === %d`, len(texts)))
		b.eval(`document.querySelectorAll('.name').forEach((e) => e.click()); 0`, new(int))
		time.Sleep(2 * time.Second)
		assert.Equal(t, "undefined", b.text(`window.pwned`))
		assert.Equal(t, "0", b.text(`document.querySelectorAll('#main img, #main script, #main a, #main b').length`))
		assert.Contains(t, b.text(`document.getElementById('rows').innerText`), texts[0])
		assert.Contains(t, b.text(`document.getElementById('rows').innerText`), `\u{202e}\u{1b}[2J\u{0}\u{a}next`)
		b.isSound()
		b.picture(fmt.Sprint("others' text, ", width))
	}
}

// Whatever happens, the page does not call the past the present.
func TestThePastIsNotShownAsThePresent(t *testing.T) {
	t.Run("turnwise serve is stopped, and killed", func(t *testing.T) {
		url := folder(t, 3)
		s := serve(t, url)
		b := look(t, s.url, 1280, 900, "light")
		b.until(`count('#rows > tr') === 3`)
		require.NoError(t, s.Process.Signal(syscall.SIGSTOP))
		b.until(`state() === 'stale'`)
		assert.Contains(t, b.text(`told()`), "has not been heard of")
		b.picture("stopped")
		require.NoError(t, s.Process.Signal(syscall.SIGCONT))
		b.until(`state() === 'live'`)

		require.NoError(t, s.Process.Kill())
		b.until(`state() === 'stale'`)
		assert.NotEqual(t, "1", b.text(`getComputedStyle(document.getElementById('lines')).opacity`))
		again := serve(t, url, "--http", strings.TrimPrefix(s.url, "http://"))
		assert.Equal(t, s.url, again.url)
		b.until(`state() === 'live'`)
	})
	t.Run("the service is away, and back", func(t *testing.T) {
		cluster := servers.Redis(t)
		s := serve(t, "redis://"+cluster.Addrs()[0])
		b := look(t, s.url, 1280, 900, "dark")
		cluster.Member(0).Freeze()
		b.until(`state() === 'stale'`)
		assert.Contains(t, b.text(`told()`), "not live: ")
		b.picture("frozen")
		cluster.Member(0).Thaw()
		b.until(`state() === 'live'`)
		b.isSound()
	})
}

func TestTheTokenIsAskedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte("0123456789abcdef\n"), 0o600))
	s := serve(t, folder(t, 3), "--token-file", path)
	b := openTab(t, s.url, 390, 900, "light")
	b.until(`count('#login') === 1`)
	b.picture("token")
	assert.Equal(t, "0", b.text(`count('#rows > tr')`))
	b.run(chromedp.SendKeys(`#token`, "fedcba9876543210\r", chromedp.ByQuery))
	b.until(`count('#wrong') === 1`)
	b.run(chromedp.SendKeys(`#token`, "0123456789abcdef\r", chromedp.ByQuery))
	b.until(`state() === 'live'`)
	assert.Equal(t, s.url+"/", b.text(`location.href`), "it is not in the address")
	assert.Empty(t, b.text(`document.cookie`))
	b.run(chromedp.Reload())
	b.until(`document.getElementById('state').dataset.state === 'live'`)
}

// Several that wait for the same line share a box.
func TestWhoWaitsForWhom(t *testing.T) {
	url := "file://" + t.TempDir() + "/locks"
	run := func(args ...string) {
		c := exec.Command(program, args...)
		c.Env = append(os.Environ(), "TURNWISE_BACKEND="+url)
		require.NoError(t, c.Start())
		t.Cleanup(func() { c.Process.Signal(syscall.SIGTERM); c.Wait() })
	}
	for i := range 8 {
		run("sem", "--permits", "3", "--label", fmt.Sprint("fetch ", i), "downloads", "--", "sleep", "1000")
	}
	s := serve(t, url)
	b := look(t, s.url, 1280, 900, "dark")
	b.until(`count('#graph > g') === 4 && count('#graph > path') === 3`)
	assert.Contains(t, b.text(`document.getElementById('graph').textContent`), "5 wait")
	assert.Equal(t, "0", b.text(`count('#graph > .red')`))
	b.isSound()
	b.picture("who waits for whom")
}

// Commands that each hold what the next one waits for.
func TestACircleIsRed(t *testing.T) {
	for _, many := range []int{2, 3, 7} {
		t.Run(fmt.Sprint(many), func(t *testing.T) {
			dir := t.TempDir()
			for i := range many {
				line := fmt.Sprintf(`while test $(ls %s/ready* 2>/dev/null | wc -l) -lt %d; do touch %s/ready%d; sleep 0.05; done
					exec %s lock -b file://%s/locks line%d -- true`, dir, many, dir, i, program, dir, (i+1)%many)
				c := exec.Command(program, "lock", "-b", "file://"+dir+"/locks", "--label", fmt.Sprint("worker ", i),
					fmt.Sprint("line", i), "--", "sh", "-c", line)
				require.NoError(t, c.Start())
				t.Cleanup(func() { c.Process.Signal(syscall.SIGTERM); c.Wait() })
			}
			waits := func() bool {
				for i := range many {
					out, _ := exec.Command(program, "who", "-b", "file://"+dir+"/locks", fmt.Sprint("line", i)).Output()
					if !strings.Contains(string(out), "waits") {
						return false
					}
				}
				return true
			}
			require.Eventually(t, waits, time.Minute, 50*time.Millisecond)
			waiter := exec.Command(program, "lock", "-b", "file://"+dir+"/locks", "--label", "behind them", "line0", "--", "true")
			require.NoError(t, waiter.Start())
			t.Cleanup(func() { waiter.Process.Signal(syscall.SIGTERM); waiter.Wait() })
			s := serve(t, "file://"+dir+"/locks")
			b := look(t, s.url, 1280, 1100, "light")
			b.until(`count('#circles li') === 1`)
			assert.Equal(t, fmt.Sprint(many), b.text(`count('#graph > path.red')`))
			assert.Equal(t, fmt.Sprint(many), b.text(`count('#graph g.red')`))
			b.isSound()
			b.picture(fmt.Sprint("circle of ", many))
		})
	}
}
