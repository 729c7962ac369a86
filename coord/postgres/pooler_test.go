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
	"github.com/turnwise/turnwise/verify/faultproxy"
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

// The connections of a pooler are everybody's: what is set on one of them would be set for whoever comes next.
func TestBehindAPoolerNothingIsSetForOthers(t *testing.T) {
	m := durable(t)
	pooler := servers.PgBouncer(t, m, servers.Config("default_pool_size = 1")).Member(0)
	opened(t, pooler.URL(), WithPolling()).Close()
	if path, own := query(t, pooler.URL(), "SHOW search_path"), query(t, m.URL(), "SHOW search_path"); path != own {
		t.Errorf("whoever comes next searches in %s, and not in %s", path, own)
	}
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

// The pooler is pointed to another server, on the same timeline, into which the table was loaded a moment ago. Each row has the
// version that it had, and the table has the same number. What was swapped since then is not there.
func TestAPoolerThatLeadsToACopyIsNoticed(t *testing.T) {
	from, to := durable(t), durable(t)
	proxy := faultproxy.Start(t, from.Addr())
	pooler := servers.PgBouncer(t, from, servers.Config("[databases]", "* = host=127.0.0.1 port="+strings.Split(proxy.Addr(), ":")[1]+" user=postgres")).Member(0)
	s := opened(t, pooler.URL(), WithPolling())
	old := put(t, s, register.Item{Key: "k"}, "1")
	opened(t, to.URL()).Close()
	oid := `SELECT 'turnwise_register'::regclass::oid::bigint`
	if a, b := query(t, from.URL(), oid), query(t, to.URL(), oid); a != b {
		t.Fatalf("the tables have numbers of their own, %s and %s, so this shows nothing", a, b)
	}
	rows := query(t, from.URL(), `SELECT string_agg(format('(%L::bytea, %s, %L::bytea, %L::timestamptz)', key, version, value, since), ', ') FROM turnwise_register`)
	query(t, to.URL(), `TRUNCATE turnwise_register`)
	query(t, to.URL(), `INSERT INTO turnwise_register (key, version, value, since) VALUES `+rows)
	it := put(t, s, old, "2, which is not there")
	query(t, from.URL(), `SELECT pg_switch_wal()`) // both are copies of one installation, so this log alone tells them apart
	it = put(t, s, it, "3, which is not there")
	if _, err := s.Memory(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	proxy.Lead(to.Addr())
	for _, was := range []register.Item{old, it} {
		for {
			got, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: "k", Old: was.Version, Next: register.NewVersion(), Value: []byte("3")})
			if errors.Is(err, register.ErrForgot) {
				break
			}
			if err == nil || errors.Is(err, register.ErrConflict) {
				t.Fatalf("it swaps at another server: %+v, %v", got, err)
			}
		}
	}
}
