//go:build linux || darwin

package file

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// leaveAnHeir holds a lock, starts a process that inherits what keeps it, says which process that is, and waits to be
// killed.
func leaveAnHeir(dir string) error {
	client, err := Connect(context.Background(), dir)
	if err != nil {
		return err
	}
	if _, err := mutex.New(client, "line").Lock(context.Background()); err != nil {
		return err
	}
	heir := exec.Command("sleep", "1000")
	if heir.ExtraFiles, err = Descriptors(client); err != nil {
		return err
	}
	if err := heir.Start(); err != nil {
		return err
	}
	fmt.Println(heir.Process.Pid)
	select {}
}

func TestAHoldLastsUntilTheLastHeirIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	owner := childProcess("leave an heir", dir)
	out, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	heir, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	t.Cleanup(func() { syscall.Kill(heir, syscall.SIGKILL) })

	client, err := Connect(t.Context(), dir)
	require.NoError(t, err)
	defer client.Close()
	keepers := func() []int {
		t.Helper()
		line, err := client.Line(t.Context(), "line")
		require.NoError(t, err)
		require.NotEmpty(t, line)
		pids, err := Keepers(client, line[0])
		require.NoError(t, err)
		return pids
	}
	if _, err := os.Stat("/proc/self/fd"); err == nil {
		assert.ElementsMatch(t, []int{owner.Process.Pid, heir}, keepers())
	}
	require.NoError(t, owner.Process.Kill())
	owner.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = mutex.New(client, "line").Lock(ctx)
	require.ErrorIs(t, err, coord.ErrBusy, "let in beside the heir")
	if _, err := os.Stat("/proc/self/fd"); err == nil {
		assert.Equal(t, []int{heir}, keepers())
	}

	require.NoError(t, syscall.Kill(heir, syscall.SIGKILL))
	h, err := mutex.New(client, "line").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Release())
}

func TestThereIsNothingToInheritElsewhere(t *testing.T) {
	service := mem.New()
	defer service.Close()
	client := service.Client()
	defer client.Close()
	_, err := Descriptors(client)
	assert.ErrorIs(t, err, coord.ErrInvalid)
	_, err = Keepers(client, coord.Node{})
	assert.ErrorIs(t, err, coord.ErrInvalid)
}
