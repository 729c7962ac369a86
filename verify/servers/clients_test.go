//go:build unix

package servers_test

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/verify/servers"
)

// run runs a client that `make deps` has fetched, and returns what it says, even if it fails.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	said, err := exec.CommandContext(ctx, servers.Need(t, program), args...).CombinedOutput()
	if err != nil && len(said) == 0 {
		require.NoError(t, err)
	}
	return strings.TrimSpace(string(said))
}

func port(m *servers.Member) string {
	_, port, _ := net.SplitHostPort(m.Addr())
	return port
}
