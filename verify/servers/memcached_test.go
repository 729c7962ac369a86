//go:build unix

package servers_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/verify/servers"
)

func TestAMemcachedForgets(t *testing.T) {
	m := servers.Memcached(t).Member(0)
	require.Equal(t, "STORED", memcached(t, m.Addr(), "set colour 0 0 4\r\nblue"))
	require.Equal(t, "VALUE colour 0 4", memcached(t, m.Addr(), "get colour"))
	m.Kill()
	m.Restart(t)
	require.Equal(t, "END", memcached(t, m.Addr(), "get colour"))
}

func TestAMemcachedThatMayNotEvictRefuses(t *testing.T) {
	m := servers.Memcached(t, servers.Flags("-M", "-m", "8")).Member(0)
	value := strings.Repeat("x", 100_000)
	for i := range 200 {
		said := memcached(t, m.Addr(), "set key"+strings.Repeat("i", i)+" 0 0 100000\r\n"+value)
		if said != "STORED" {
			require.Contains(t, said, "SERVER_ERROR out of memory")
			return
		}
	}
	t.Fatal("200 values of 100 kB fit into 8 MB")
}

// memcached sends one request, and returns the first line of the answer.
func memcached(t *testing.T, addr, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = io.WriteString(conn, request+"\r\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}
