package postgres

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storetest"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestBehindAPoolerThatDropsNotesOnePolls(t *testing.T) {
	m := durable(t)
	pooler := servers.PgBouncer(t, m, servers.Config("default_pool_size = 3")).Member(0)
	var said lockedBuffer
	s := opened(t, pooler.URL(), WithLogger(slog.New(slog.NewTextHandler(&said, nil))))
	if _, err := s.Listen(within(t, 10*time.Second), "t", func([]byte) {}); !errors.Is(err, register.ErrMute) {
		t.Errorf("listen: %v", err)
	}
	if !strings.Contains(said.String(), "WithListenURL") {
		t.Errorf("the log says %s", said.String())
	}
	s.countTogether(t, 8, 10)
	worksThroughout(t, s)
}

func TestBehindAPoolerNotesComeFromTheServerItself(t *testing.T) {
	m := durable(t)
	pooler := servers.PgBouncer(t, m).Member(0)
	s := opened(t, pooler.URL(), WithListenURL(m.URL()))
	if s.listener == nil {
		t.Fatal("it is mute")
	}
	worksThroughout(t, s)
}

func TestAPoolerInSessionModeIsNoObstacle(t *testing.T) {
	m := durable(t)
	pooler := servers.PgBouncer(t, m, servers.Config("pool_mode = session")).Member(0)
	s := opened(t, pooler.URL())
	if s.listener == nil {
		t.Fatal("it is mute")
	}
	s.countTogether(t, 3, 10)
	worksThroughout(t, s)
}

func TestTheDefaultsOfARoleDoNotMatterBehindAPooler(t *testing.T) {
	m := durable(t)
	url := hostileRole(t, m)
	query(t, m.URL(), "ALTER ROLE hostile RESET idle_session_timeout") // it is the pooler's connections that end
	pooler := servers.PgBouncer(t, m, servers.Config("[databases]", "* = host=127.0.0.1 port="+strings.Split(m.Addr(), ":")[1]+" user=hostile")).Member(0)
	_ = url
	s := opened(t, pooler.URL(), WithPolling())
	s.countTogether(t, 6, 10)
	s.takesLong(t, m, put(t, s, register.Item{Key: "k"}, "x"))
	worksThroughout(t, s)
}

func TestStoreBehindAPooler(t *testing.T) {
	m := durable(t)
	pooler := servers.PgBouncer(t, m, servers.Config("default_pool_size = 5", "max_client_conn = 500")).Member(0)
	storetest.Run(t, func(t testing.TB) *storetest.System {
		return &storetest.System{
			Open: func(t testing.TB) register.Store { return opened(t, pooler.URL(), WithPolling()) },
			Ages: true, Clock: true,
			Mute: true,
		}
	})
}

// lockedBuffer is for a log that is written while a test goes on.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
