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
	"golang.org/x/sys/unix"

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

// A command may have become another user, who has no right to the directory but has what it has inherited.
func TestAnHeirLetsNobodyIn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	client, err := Connect(t.Context(), dir)
	require.NoError(t, err)
	defer client.Close()
	hold, err := mutex.New(client, "line").Lock(t.Context())
	require.NoError(t, err)
	files, err := Descriptors(client)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	session, _, _ := strings.Cut(hold.Node().ID, "-")
	kept, err := os.Open(filepath.Join(dir, keptDir, nameOf("session/"+session)))
	require.NoError(t, err)
	defer kept.Close()
	for _, f := range files {
		inherited, err := unix.Dup(int(f.Fd())) // as a child has it: what is done to it is done to the owner's
		require.NoError(t, err)
		_ = unix.Flock(inherited, unix.LOCK_UN)
		_, _ = unix.Write(inherited, make([]byte, 100))
		_ = unix.Ftruncate(inherited, 0)
		require.NoError(t, unix.Close(inherited))
	}
	require.ErrorIs(t, flock(kept, unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK, "an heir has unlocked the owner's file")
	other, err := Connect(t.Context(), dir)
	require.NoError(t, err)
	defer other.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = mutex.New(other, "line").Lock(ctx)
	require.ErrorIs(t, err, coord.ErrBusy, "let in beside the owner")
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Release())
}

// Who waits for the end of a session has its pipe open, and keeps nothing.
func TestAWaiterIsNoHeir(t *testing.T) {
	if _, err := os.Stat("/proc/self/fdinfo"); err != nil {
		t.Skip("no /proc")
	}
	dir := filepath.Join(t.TempDir(), "locks")
	client, err := Connect(t.Context(), dir)
	require.NoError(t, err)
	defer client.Close()
	_, err = mutex.New(client, "line").Lock(t.Context())
	require.NoError(t, err)
	store, err := storeOf(client)
	require.NoError(t, err)
	var pipe string
	for k := range store.kept {
		pipe = filepath.Join(dir, keptDir, pipeOf(k.name))
	}
	reader := exec.Command("sleep", "1000")
	r, err := os.OpenFile(pipe, os.O_RDONLY, 0)
	require.NoError(t, err)
	defer r.Close()
	reader.ExtraFiles = []*os.File{r}
	require.NoError(t, reader.Start())
	defer func() { _ = reader.Process.Kill(); _ = reader.Wait() }()
	line, err := client.Line(t.Context(), "line")
	require.NoError(t, err)
	pids, err := Keepers(client, line[0])
	require.NoError(t, err)
	assert.Equal(t, []int{os.Getpid()}, pids)
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
