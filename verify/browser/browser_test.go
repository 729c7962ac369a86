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
	"strconv"
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
	b.run(chromedp.FullScreenshot(&png, 100))
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

// fits fails the test unless the picture is within the window, begins at the left, no box or text covers another one, and no
// way leads behind a box that is none of its ends.
func (b *tab) fits() {
	b.t.Helper()
	assert.Equal(b.t, "", b.text(`(() => {
		const cover = (a, c) => a.left < c.right && c.left < a.right && a.top < c.bottom && c.top < a.bottom;
		const all = [...document.querySelectorAll('#graph .box rect')].map((r) => r.getBoundingClientRect());
		if (!all.length) return 'there is no box';
		if (all.some((r) => r.left < 0 || r.right > window.innerWidth)) return 'a box is outside of the window';
		for (const a of all) for (const c of all)
			if (a !== c && cover(a, c)) return 'a box covers another one';
		const texts = [...document.querySelectorAll('#graph .edge text')].map((t) => [t.textContent, t.getBoundingClientRect()]);
		for (const [a, r] of texts) for (const [c, s] of texts) if (r !== s && cover(r, s)) return a + ' covers ' + c;
		for (const [a, r] of texts) if (all.some((box) => cover(box, r))) return a + ' is behind a box';
		for (const way of document.querySelectorAll('#graph .way')) {
			const key = way.parentNode.dataset.key, long = way.getTotalLength();
			for (const box of document.querySelectorAll('#graph .box')) {
				const b = box.querySelector('rect').getBBox(), own = box.dataset.key;
				const edge = key.startsWith(own + '\n\n') || key.endsWith('\n\n' + own) ? 3 : 0;
				for (let at = 0; at <= long; at += 2) {
					const p = way.getPointAtLength(at);
					if (p.x > b.x + edge && p.x < b.x + b.width - edge && p.y > b.y + edge && p.y < b.y + b.height - edge)
						return way.parentNode.querySelector('text').textContent + ' leads behind ' + box.textContent;
				}
			}
		}
		const svg = document.getElementById('graph').getBoundingClientRect();
		const left = Math.min(...all.map((r) => r.left)) - svg.left, right = svg.right - Math.max(...all.map((r) => r.right));
		return left > 40 && left > right + 40 ? 'its left part is empty' : '';
	})()`))
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
	for i := range 25 * min(lines, 1) {
		c := client(t, dir, fmt.Sprint("report ", i))
		go mutex.New(c, name(0)).Lock(t.Context())
	}
	for i := range 5 * min(lines, 1) { // the others are of one process with the holder, and the picture shows processes
		waiting(t, "file://"+dir, name(0), fmt.Sprint("nightly ", i))
	}
	return "file://" + dir
}

// waiting is a process that waits for a line. It is no child of ours, which would count as one with us.
func waiting(t *testing.T, url, name, label string) {
	t.Helper()
	out, err := exec.Command("sh", "-c", `"$0" "$@" </dev/null >/dev/null 2>&1 & echo $!`, program, "lock", "-b", url, "--label", label, name, "--", "true").Output()
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
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
	for _, lines := range []int{0, 3, 50, 500} {
		s := serve(t, folder(t, lines))
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{390, 1280} {
				name := fmt.Sprintf("%d lines, %s, %d wide", lines, scheme, width)
				t.Run(name, func(t *testing.T) {
					b := look(t, s.url, width, 900, scheme)
					b.until(fmt.Sprintf(`count('#rows > tr') === %d`, min(lines, 100)))
					b.isSound()
					if lines > 0 {
						b.until(`document.querySelector('#rows .busy')?.textContent === '30'`)
						b.picture(name)
						b.until(`count('#graph .box') === 2`)
						b.fits()
						b.run(chromedp.Click(`#rows .name`, chromedp.ByQuery))
						assert.Equal(t, "20", b.text(`count('tr.inner tbody tr')`))
						assert.Contains(t, b.text(`document.querySelector('tr.inner').innerText`), "and 11 more")
						b.isSound()
						b.picture(name + ", open")
					} else {
						b.picture(name)
						assert.Equal(t, "Nobody stands in any line.", b.text(`document.getElementById('count').textContent`))
					}
					if lines == 500 {
						b.run(chromedp.Click(`#show`, chromedp.ByQuery))
						b.until(`count('#rows > tr:not(.inner)') === 500`)
						assert.Equal(t, "0", b.text(`count('#more')`))
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
		assert.Regexp(t, `^as of \d+ s ago: turnwise serve does not answer$`, b.text(`told()`))
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
		assert.Regexp(t, `^as of \d+ s ago: `, b.text(`told()`))
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
	b.until(`count('#graph .box') === 4 && count('#graph .edge') === 3`)
	assert.Contains(t, b.text(`document.getElementById('graph').textContent`), "5 wait")
	assert.Equal(t, "0", b.text(`count('#graph g.red')`))
	b.isSound()
	b.fits()
	b.picture("who waits for whom")
}

// Commands that each hold what the next one waits for.
func TestACircleIsRed(t *testing.T) {
	for _, many := range []int{2, 3, 4, 7} {
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
			for _, i := range []int{0, many - 1} {
				waiting(t, "file://"+dir+"/locks", fmt.Sprint("line", i), fmt.Sprint("behind worker ", i))
			}
			s := serve(t, "file://"+dir+"/locks")
			for _, as := range []struct {
				width  int64
				scheme string
			}{{1280, "light"}, {1280, "dark"}, {390, "light"}, {390, "dark"}} {
				b := look(t, s.url, as.width, 1100, as.scheme)
				b.until(fmt.Sprintf(`count('#circles li') === %d && count('#graph .box') === %d`, many, many+2))
				assert.Equal(t, fmt.Sprint(many), b.text(`count('#graph .edge.red')`))
				assert.Equal(t, fmt.Sprint(many), b.text(`count('#graph .box.red')`))
				b.isSound()
				b.fits()
				b.picture(fmt.Sprintf("circle of %d, %d wide, %s", many, as.width, as.scheme))
			}
			if many == 3 {
				circleIsMended(t, look(t, s.url, 1280, 1100, "light"), "file://"+dir+"/locks", s)
			}
		})
	}
}

// Each line of the banner leads somewhere, and the command that it shows ends the circle.
func circleIsMended(t *testing.T, b *tab, url string, s *serving) {
	t.Helper()
	b.until(`count('#circles .command code') === 3`)
	banner := b.text(`document.getElementById('circles').innerText`)
	for i := range 3 {
		assert.Contains(t, banner, fmt.Sprint("worker ", i))
		assert.Contains(t, banner, fmt.Sprint("line", i))
	}
	b.run(chromedp.Click(`#circles li .link`, chromedp.ByQuery))
	b.until(`document.activeElement.className === 'name' && document.activeElement.getAttribute('aria-expanded') === 'true'`)
	assert.Equal(t, b.text(`document.querySelector('#circles li .link').textContent`), b.text(`document.activeElement.textContent`))

	b.run(chromedp.Click(`#circles .copy`, chromedp.ByQuery))
	command := b.text(`getSelection().toString()`)
	assert.Equal(t, command, b.text(`document.querySelector('#circles code').textContent`))
	assert.Regexp(t, `^turnwise break -b file:///\S+ line\d \d+$`, command)
	assert.Contains(t, command, url)
	shell := exec.Command("sh", "-c", command+" -y")
	shell.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
	out, err := shell.CombinedOutput()
	require.NoError(t, err, string(out))
	b.until(`count('#circles') === 0`)
	assert.Equal(t, s.url+"/", b.text(`location.href`))
}

// What is in trouble stands above what waits, that above what is only held, and a click on the head of a column sorts by it.
func TestWhatMattersStandsAbove(t *testing.T) {
	dir := t.TempDir()
	holder := client(t, dir, "holder")
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		_, err := mutex.New(holder, name).Lock(t.Context())
		require.NoError(t, err)
	}
	for i, name := range []string{"d", "b", "b"} { // d first
		go mutex.New(client(t, dir, fmt.Sprint("waiter ", i)), name).Lock(t.Context())
		require.Eventually(t, func() bool {
			line, err := holder.Line(t.Context(), name)
			return err == nil && len(line) == 2+i/2
		}, time.Minute, 10*time.Millisecond)
	}
	s := serve(t, "file://"+dir)
	for _, width := range []int64{390, 1280} {
		b := look(t, s.url, width, 900, "light")
		names := `[...document.querySelectorAll('.name')].map((e) => e.textContent).join(' ')`
		b.until(names + ` === 'd b a c e'`)
		b.run(chromedp.Click(`[data-by=name]`, chromedp.ByQuery))
		assert.Equal(t, "a b c d e", b.text(names))
		assert.Equal(t, "ascending", b.text(`document.querySelector('th.c-name').getAttribute('aria-sort')`))
		b.run(chromedp.Click(`[data-by=name]`, chromedp.ByQuery))
		assert.Equal(t, "e d c b a", b.text(names))
		b.run(chromedp.Click(`[data-by=waiting]`, chromedp.ByQuery))
		assert.Equal(t, "b d a c e", b.text(names))
		b.run(chromedp.Click(`[data-by=waiting]`, chromedp.ByQuery), chromedp.Click(`[data-by=waiting]`, chromedp.ByQuery))
		assert.Equal(t, "d b a c e", b.text(names), "the third click ends it")
		b.isSound()
	}
}

// A column in which nothing would stand is not there, nor is one of an open line.
func TestEmptyColumnsAreNotShown(t *testing.T) {
	dir := t.TempDir()
	holder := client(t, dir, "holder")
	_, err := mutex.New(holder, "a").Lock(t.Context())
	require.NoError(t, err)
	s := serve(t, "file://"+dir)
	b := look(t, s.url, 1280, 900, "light")
	heads := `[...document.querySelectorAll('#heads th')].filter((e) => e.checkVisibility()).map((e) => e.textContent).join(', ')`
	b.until(heads + ` === 'Line, Held by, Came'`)
	b.run(chromedp.Click(`#rows .name`, chromedp.ByQuery))
	assert.Equal(t, ", Who, Has or wants, Came, Token, ID", b.text(`[...document.querySelectorAll('tr.inner th')].map((e) => e.textContent).join(', ')`))
	assert.Equal(t, "true", b.text(`Math.abs(document.querySelector('tr.inner').getBoundingClientRect().width - document.getElementById('lines').getBoundingClientRect().width) < 2`))
	go mutex.New(client(t, dir, "waiter"), "a").Lock(t.Context())
	b.until(heads + ` === 'Line, Held by, Came, Waiting'`)
	b.isSound()
}

// Since when a line is held is shown where it is known: its holder may say so, or the page has seen it come.
func TestSinceWhenALineIsHeld(t *testing.T) {
	dir := t.TempDir()
	noting, err := file.Connect(t.Context(), dir, file.WithClient(coord.WithOwnerLabel("noting"), coord.WithTurnNotes()))
	require.NoError(t, err)
	t.Cleanup(func() { noting.Close() })
	h, err := mutex.New(noting, "a").Lock(t.Context())
	require.NoError(t, err)
	defer h.Release()
	s := serve(t, "file://"+dir)
	b := look(t, s.url, 1280, 900, "light")
	head := `document.querySelector('[data-by=since]').textContent`
	b.until(head + ` === 'Held for'`)
	assert.Regexp(t, `^\d+ s$`, b.text(`document.querySelector('td.c-since time').textContent`))
	_, err = mutex.New(client(t, dir, "silent"), "b").Lock(t.Context())
	require.NoError(t, err)
	b.until(head + ` === 'Held for, or came'`)
	assert.Regexp(t, `^held for \d+ s,came \d+ s ago$`, b.text(`[...document.querySelectorAll('td.c-since')].map((e) => e.innerText).join(',')`))
	b.isSound()
	b.picture("held for")
}

// The picture shows what the filter leaves, and all of a label when it is tapped.
func TestThePictureFollowsTheFilter(t *testing.T) {
	dir := t.TempDir()
	long := "a label that is far too long for a box of the picture, whatever the window is"
	for _, name := range []string{"fruit", "bread"} {
		_, err := mutex.New(client(t, dir, "holder"), name).Lock(t.Context())
		require.NoError(t, err)
		waiting(t, "file://"+dir, name, name+": "+long)
	}
	s := serve(t, "file://"+dir)
	b := look(t, s.url, 390, 900, "dark")
	b.until(`count('#graph .box') === 3`)
	b.fits()
	b.run(chromedp.SendKeys(`#filter`, "fruit", chromedp.ByQuery))
	b.until(`count('#graph .box') === 2`)
	assert.NotContains(t, b.text(`document.getElementById('graph').textContent`), "bread")
	assert.NotContains(t, b.text(`[...document.querySelectorAll('#graph .box text')].map((e) => e.textContent).join()`), long, "there is no room for it")
	b.eval(`[...document.querySelectorAll('#graph .box')].find((g) => g.textContent.includes('fruit: ')).id = 'tapped'; 0`, new(int))
	b.run(chromedp.ScrollIntoView(`#tapped`, chromedp.ByQuery), chromedp.Click(`#tapped`, chromedp.ByQuery))
	b.until(`document.querySelectorAll('#graph .chosen').length === 1`)
	assert.Contains(t, b.text(`document.getElementById('whole').textContent`), "fruit: "+long)
	b.picture("a label that was tapped")
	b.run(chromedp.SendKeys(`#filter`, "nothing of that name", chromedp.ByQuery))
	b.until(`count('#picture') === 0`)
	b.isSound()
}

// A name that a shell would run is quoted in the command, and one that nobody should paste is in none.
func TestACommandIsSafeToPaste(t *testing.T) {
	s := serve(t, "file://"+t.TempDir())
	b := look(t, s.url, 1280, 900, "light")
	for name, want := range map[string]string{
		"shop/orders":       "turnwise break -b file:///locks shop/orders 256",
		"-y":                "turnwise break -b file:///locks -- '-y' 256",
		"a b; $(touch x) `": "turnwise break -b file:///locks 'a b; $(touch x) `' 256",
		"it's":              `turnwise break -b file:///locks 'it'\''s' 256`,
		`a\'; (touch x)`:    `turnwise break -b file:///locks 'a'\\''\''; (touch x)' 256`, // in fish too
		"=ls":               "turnwise break -b file:///locks '=ls' 256",
		"ü":                 "turnwise break -b file:///locks 'ü' 256",
		"a\nb":              "null",
		"a\u202eb":          "null",
		"a\x1b[2Jb":         "null",
	} {
		assert.Equal(t, want, b.text(fmt.Sprintf(`(board.service = 'file:///locks', breaking(%q, '256'))`, name)), name)
	}
	assert.Equal(t, "turnwise break a 256", b.text(`(board.service = 'redis://:…@h?…', breaking('a', '256'))`), "what hides something is no URL to paste")
}
