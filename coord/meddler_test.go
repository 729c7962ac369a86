package coord_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/mem"
)

// meddler stands between a client and the in-process service, for situations that the service does not get into by
// itself. Each function that is set is called in place of what the driver does, which it is handed as do, to call or
// not.
type meddler struct {
	driver.Driver
	under *coord.Client // the one that the service knows

	open     func(ctx context.Context, do opens) (driver.Session, error)
	line     func(do func() ([]driver.Node, error)) ([]driver.Node, error)
	first    func(do func() (driver.Look, error)) (driver.Look, error)
	remove   func(n driver.Node)
	close    func(do func() error) error
	deadline func(driver.Session) time.Time
	join     func(e driver.Entry, do joins) (driver.Place, []driver.Node, error)
	last     func() bool
	watch    func(ctx context.Context, do func() error) error
	amend    func(ctx context.Context, kind string, data []byte, do func() error) error
	leave    func(ctx context.Context, held bool, do func() error) error

	closeSession func(ctx context.Context, do func() error) error

	joined driver.Session // the last one that was joined through
}

type (
	opens = func(context.Context) (driver.Session, error)
	joins = func(driver.Entry) (driver.Place, []driver.Node, error)
)

// client returns a client on m, which stands on s.
func (m *meddler) client(s *mem.Service, opts ...coord.Option) *coord.Client {
	m.under = s.Client()
	m.Driver = m.under.Driver()
	return coord.NewClient(m, opts...)
}

func (m *meddler) Open(ctx context.Context) (driver.Session, error) {
	do := func(ctx context.Context) (driver.Session, error) {
		s, err := m.Driver.Open(ctx)
		if err != nil {
			return nil, err
		}
		return &meddledSession{s, m}, nil
	}
	if m.open != nil {
		return m.open(ctx, do)
	}
	return do(ctx)
}

func (m *meddler) Line(ctx context.Context, line string) ([]driver.Node, error) {
	do := func() ([]driver.Node, error) { return m.Driver.Line(ctx, line) }
	if m.line != nil {
		return m.line(do)
	}
	return do()
}

func (m *meddler) First(ctx context.Context, line string, most int, seen *driver.Look) (driver.Look, error) {
	do := func() (driver.Look, error) { return m.Driver.First(ctx, line, most, seen) }
	if m.first != nil {
		return m.first(do)
	}
	return do()
}

func (m *meddler) Remove(ctx context.Context, n driver.Node) error {
	if m.remove != nil {
		m.remove(n)
	}
	return m.Driver.Remove(ctx, n)
}

func (m *meddler) Close(ctx context.Context) error {
	do := func() error { return m.Driver.Close(ctx) }
	if m.close != nil {
		return m.close(do)
	}
	return do()
}

type meddledSession struct {
	driver.Session
	m *meddler
}

func (s *meddledSession) Deadline() time.Time {
	if s.m.deadline != nil {
		return s.m.deadline(s.Session)
	}
	return s.Session.Deadline()
}

func (s *meddledSession) Join(ctx context.Context, e driver.Entry) (driver.Place, []driver.Node, error) {
	s.m.joined = s.Session
	do := func(e driver.Entry) (driver.Place, []driver.Node, error) {
		p, ahead, err := s.Session.Join(ctx, e)
		if err != nil {
			return nil, nil, err
		}
		return &meddledPlace{p, s.m}, ahead, nil
	}
	if s.m.join != nil {
		return s.m.join(e, do)
	}
	return do(e)
}

func (s *meddledSession) Close(ctx context.Context) error {
	do := func() error { return s.Session.Close(ctx) }
	if s.m.closeSession != nil {
		return s.m.closeSession(ctx, do)
	}
	return do()
}

type meddledPlace struct {
	driver.Place
	m *meddler
}

func (p *meddledPlace) Last() bool {
	if p.m.last != nil {
		return p.m.last()
	}
	return p.Place.Last()
}

func (p *meddledPlace) Watch(ctx context.Context) error {
	do := func() error { return p.Place.Watch(ctx) }
	if p.m.watch != nil {
		return p.m.watch(ctx, do)
	}
	return do()
}

func (p *meddledPlace) Amend(ctx context.Context, kind string, data []byte) error {
	do := func() error { return p.Place.Amend(ctx, kind, data) }
	if p.m.amend != nil {
		return p.m.amend(ctx, kind, data, do)
	}
	return do()
}

func (p *meddledPlace) Leave(ctx context.Context, held bool) error {
	do := func() error { return p.Place.Leave(ctx, held) }
	if p.m.leave != nil {
		return p.m.leave(ctx, held, do)
	}
	return do()
}

// diary is what observers were told, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// read returns what was written since the last time, once everybody has come to rest.
func (d *diary) read() []string {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

// option has a client's observer write in the diary.
func (d *diary) option() coord.Option {
	return coord.WithObserver(&coord.Observer{
		SessionOpened: func(time.Time) { d.write("session opened") },
		SessionEnded:  func(time.Time, error) { d.write("session ended") },
		OpenFailed:    func(_ time.Time, err error) { d.write("open failed: %v", err) },
		Waiting:       func(_ time.Time, me coord.Node, ahead int) { d.write("%s %d waits for %d", me.Line, me.Token, ahead) },
		Woken:         func(_ time.Time, me coord.Node) { d.write("%s %d woken", me.Line, me.Token) },
		Rejoining:     func(_ time.Time, me coord.Node) { d.write("%s %d lost its place", me.Line, me.Token) },
		GaveUp: func(_ time.Time, me coord.Node, _ time.Duration, err error) {
			d.write("%s %d gave up: %v", me.Line, me.Token, err)
		},
		Granted: func(_ time.Time, me coord.Node, waited time.Duration) {
			d.write("%s %d granted after %v", me.Line, me.Token, waited)
		},
		Released: func(_ time.Time, me coord.Node, held time.Duration) {
			d.write("%s %d released after %v", me.Line, me.Token, held)
		},
		Lost: func(_ time.Time, me coord.Node, err error) { d.write("%s %d lost: %v", me.Line, me.Token, err) },
	})
}

// enter acquires a line that must be free.
func enter(t *testing.T, c *coord.Client, opts ...coord.AcquireOption) *coord.Hold {
	t.Helper()
	began := time.Now()
	h, err := on(c, opts...)(t.Context())
	require.NoError(t, err)
	require.Zero(t, time.Since(began), "it had to wait")
	require.NoError(t, h.Err())
	return h
}

// queue has a client wait for a line that must not be free.
func queue(t *testing.T, c *coord.Client) <-chan coord.Result {
	t.Helper()
	turn := coord.Chan(t.Context(), on(c))
	synctest.Wait()
	select {
	case r := <-turn:
		t.Fatalf("it did not wait: %+v", r)
	default:
	}
	return turn
}
