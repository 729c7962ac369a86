//go:build unix

package servers_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/verify/servers"
)

func TestAServersClockCanBeSet(t *testing.T) {
	for name, s := range map[string]struct {
		server *servers.Cluster
		time   func(m *servers.Member) string
	}{
		"redis": {servers.Redis(t, servers.Clocks()), func(m *servers.Member) string { return strings.Fields(redis(t, m, "TIME"))[0] }},
		"postgres": {servers.Postgres(t, servers.Clocks()), func(m *servers.Member) string {
			return psql(t, m.URL(), "select floor(extract(epoch from clock_timestamp()))")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := s.server.Member(0)
			ahead := func() time.Duration {
				now := time.Now().Unix()
				there, err := strconv.ParseInt(s.time(m), 10, 64)
				require.NoError(t, err)
				return time.Duration(there-now) * time.Second
			}
			for _, set := range []time.Duration{0, time.Hour, -time.Hour} {
				require.NoError(t, m.SetClock(set))
				require.InDelta(t, set.Seconds(), ahead().Seconds(), 600)
			}
			m.Restart(t)
			require.InDelta(t, -time.Hour.Seconds(), ahead().Seconds(), 600, "a clock stays as it is when the server starts again")
		})
	}
}
