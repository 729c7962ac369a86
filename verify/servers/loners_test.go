//go:build unix

package servers_test

import (
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/servers"
)

// greetings are what a client sends first, and what a server's answer begins with. MariaDB speaks first.
var greetings = map[string]struct{ hello, answer string }{
	"redis":     {"PING\r\n", "+PONG\r\n"},
	"postgres":  {startup("user\x00postgres\x00\x00"), "R\x00\x00\x00\x08\x00\x00\x00\x00"},
	"mariadb":   {"", "5.5.5-10.11."},
	"memcached": {"version\r\n", "VERSION "},
}

func startup(settings string) string {
	hello := binary.BigEndian.AppendUint32(nil, uint32(8+len(settings)))
	return string(append(binary.BigEndian.AppendUint32(hello, 3<<16), settings...))
}

// greet returns how the answer begins, or an error if there is none in time.
func greet(conn net.Conn, name string, patience time.Duration) (string, error) {
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write([]byte(greetings[name].hello)); err != nil {
		return "", err
	}
	answer := make([]byte, 64)
	n, err := conn.Read(answer)
	return string(answer[:n]), err
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestAFrozenLonerIsSilentUntilItThaws(t *testing.T) {
	for _, s := range loners {
		t.Run(s.name, func(t *testing.T) {
			m := s.start(t).Member(0)
			m.Freeze()
			conn := dial(t, m.Addr())
			_, err := greet(conn, s.name, 300*time.Millisecond)
			require.ErrorContains(t, err, "timeout")
			m.Thaw()
			answer, err := greet(dial(t, m.Addr()), s.name, 20*time.Second)
			require.NoError(t, err)
			require.Contains(t, answer, greetings[s.name].answer)
			m.Freeze()
			m.Restart(t) // a frozen one can be killed, and comes back
		})
	}
}

func TestAProxyStandsInFrontOfEach(t *testing.T) {
	for _, s := range loners {
		t.Run(s.name, func(t *testing.T) {
			p := faultproxy.Start(t, s.start(t).Member(0).Addr())
			answer, err := greet(dial(t, p.Addr()), s.name, 20*time.Second)
			require.NoError(t, err)
			require.Contains(t, answer, greetings[s.name].answer)

			p.Stall(faultproxy.ToClient)
			conn := dial(t, p.Addr())
			_, err = greet(conn, s.name, 300*time.Millisecond)
			require.ErrorContains(t, err, "timeout")
			p.Cut()
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			_, err = conn.Read(make([]byte, 1))
			require.Error(t, err)
			require.NotContains(t, err.Error(), "timeout")

			p.Heal()
			answer, err = greet(dial(t, p.Addr()), s.name, 20*time.Second)
			require.NoError(t, err)
			require.Contains(t, answer, greetings[s.name].answer)
		})
	}
}

// PostgreSQL has a process for each connection; those must stand still, too.
func TestAFrozenPostgresStopsInTheMiddleOfAStatement(t *testing.T) {
	m := servers.Postgres(t).Member(0)
	done := make(chan string, 1)
	go func() { done <- psql(t, m.URL(), "select 'slept' from pg_sleep(6)") }()
	require.Eventually(t, func() bool {
		return psql(t, m.URL(), "select count(*) from pg_stat_activity where wait_event = 'PgSleep'") == "1"
	}, 20*time.Second, 10*time.Millisecond)
	m.Freeze()
	select {
	case said := <-done:
		t.Fatal("it went on: " + said)
	case <-time.After(7 * time.Second):
	}
	m.Thaw()
	require.Equal(t, "slept", <-done)
}

func TestAStatementUnderWayEndsWithItsPostgres(t *testing.T) {
	m := servers.Postgres(t).Member(0)
	done := make(chan string, 1)
	go func() { done <- psql(t, m.URL(), "select pg_sleep(600)") }()
	require.Eventually(t, func() bool {
		return psql(t, m.URL(), "select count(*) from pg_stat_activity where wait_event = 'PgSleep'") == "1"
	}, 20*time.Second, 10*time.Millisecond)
	m.Kill()
	require.Contains(t, <-done, "server closed the connection")
	m.Restart(t)
}
