//go:build linux

package main_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/backend"
)

// Two hundred processes in one line of a directory have their turns in the order in which they came. Twenty are killed,
// half of them while all wait and half while the line moves: nobody has two turns, and nobody else loses one.
func TestACrowdInALineOfADirectory(t *testing.T) {
	t.Parallel()
	const crowd, victims = 200, 20
	dir := t.TempDir()
	url, log := "file://"+dir+"/locks", filepath.Join(dir, "log")
	client, err := backend.Open(t.Context(), url)
	require.NoError(t, err)
	defer client.Close()
	first := start(t, url, "a", "sh", "-c", "echo $$ >ready; exec sleep 1000")
	all := make([]*running, crowd)
	began := time.Now()
	for i := range all {
		all[i] = run(t, url, "a", "sh", "-c", fmt.Sprintf("echo %d >>%s", i, log))
		require.Eventually(t, func() bool {
			line, err := client.Line(t.Context(), "a")
			return err == nil && len(line) == i+2
		}, time.Minute, time.Millisecond)
	}
	t.Logf("all are in line after %v", time.Since(began).Round(time.Millisecond))

	killed := map[int]bool{}
	for n, i := range rand.Perm(crowd)[:victims] {
		killed[i] = true
		if n < victims/2 {
			all[i].signal(syscall.SIGKILL)
			continue
		}
		defer time.AfterFunc(rand.N(time.Second), func() { all[i].signal(syscall.SIGKILL) }).Stop()
	}
	began = time.Now()
	first.command(syscall.SIGTERM)
	assert.Equal(t, 143, first.code())
	for i, r := range all {
		if code := r.code(); !killed[i] {
			assert.Zero(t, code, i)
		}
	}
	t.Logf("all have had their turn after %v", time.Since(began).Round(time.Millisecond))

	text, err := os.ReadFile(log)
	require.NoError(t, err)
	turns, last := map[int]bool{}, -1
	for _, field := range strings.Fields(string(text)) {
		i, err := strconv.Atoi(field)
		require.NoError(t, err)
		assert.Greater(t, i, last, "out of order, or twice")
		last = i
		turns[i] = true
	}
	for i := range all {
		assert.True(t, turns[i] || killed[i], "%d has lost its turn", i)
	}
	t.Logf("%d turns, %d were killed", len(turns), len(killed))
}
