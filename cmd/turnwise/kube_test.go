//go:build linux || darwin

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/verify/servers"
)

// The tool in a pod: the API server, the namespace and the token are those that are there.
func TestTheToolOnKube(t *testing.T) {
	t.Parallel()
	c := servers.Kube(t, servers.Shared())
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte(servers.KubeAdmin), 0o600))
	url := "kube://default?session=4s&longest-session=4s&server=" + c.URL() + "&ca=" + c.KubeCA() + "&token-file=" + token
	turnwise := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(program, "turnwise"), args...)
		cmd.Env = append(os.Environ(), "TURNWISE_BACKEND="+url, "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	first := turnwise("lock", "-w", "1m", "orders", "--", "sh", "-c", "echo $TURNWISE_TOKEN")
	second := turnwise("lock", "-w", "1m", "orders", "--", "sh", "-c", "echo $TURNWISE_TOKEN")
	assert.NotEqual(t, first, second)
	assert.Contains(t, turnwise("doctor"), "remembers every answered write")
}
