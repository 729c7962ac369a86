package cli

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A command that elect starts in a later term must not ignore a signal that turnwise ignored for a moment.
func TestASignalIsIgnoredNoLongerThanItHasToBe(t *testing.T) {
	ignored := func() bool {
		text, err := os.ReadFile("/proc/self/status")
		require.NoError(t, err)
		_, rest, _ := strings.Cut(string(text), "SigIgn:")
		line, _, _ := strings.Cut(rest, "\n")
		mask, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
		require.NoError(t, err)
		return mask&(1<<(syscall.SIGTTOU-1)) != 0
	}
	require.False(t, ignored())
	for range 2 {
		ignoring(syscall.SIGTTOU, func() { assert.True(t, ignored()) })
		assert.False(t, ignored())
	}
}
