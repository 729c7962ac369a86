//go:build linux

package main_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/file"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// forger joins lines in the name of another process.
type forger struct {
	driver.Driver
	pid int
}

func (f forger) Open(ctx context.Context) (driver.Session, error) {
	s, err := f.Driver.Open(ctx)
	return forgerSession{s, f.pid}, err
}

type forgerSession struct {
	driver.Session
	pid int
}

func (f forgerSession) Join(ctx context.Context, e driver.Entry) (driver.Place, []driver.Node, error) {
	e.Owner.PID = f.pid
	return f.Session.Join(ctx, e)
}

// A line says who stands in it, and may lie: it may name a process that holds something else, or a number that means
// another process here. 'turnwise release' ends nothing but the hold that it was asked to end, and it comes back.
func TestReleaseBelievesNoLine(t *testing.T) {
	t.Parallel()
	private, shared := t.TempDir(), t.TempDir()
	turnwise := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, filepath.Join(program, "turnwise"), args...).CombinedOutput()
		require.NoError(t, ctx.Err(), "it hangs")
		return string(out), err
	}
	out, err := turnwise("hold", "-b", "file://"+private, "--for", "10m", "mine")
	require.NoError(t, err, out)
	match := regexp.MustCompile(`TURNWISE_HOLDER='(\d+)'`).FindStringSubmatch(out)
	require.NotNil(t, match, out)
	pid, _ := strconv.Atoi(match[1])
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })

	s, err := file.Open(t.Context(), shared)
	require.NoError(t, err)
	defer s.Close()
	d := register.New(s)
	defer d.Close(context.Background())
	c := coord.NewClient(forger{d, pid})
	defer c.Close()
	hold, err := mutex.New(c, "theirs").Lock(t.Context())
	require.NoError(t, err)
	line, err := c.Line(t.Context(), "theirs")
	require.NoError(t, err)
	require.Equal(t, pid, line[0].Owner.PID)
	host, _ := os.Hostname()
	require.Equal(t, host, line[0].Owner.Host)

	out, err = turnwise("release", "-b", "file://"+shared, "theirs")
	assert.Error(t, err)
	assert.Contains(t, out, `no 'turnwise hold' of yours on this machine has "theirs"`)
	time.Sleep(200 * time.Millisecond)
	assert.NoError(t, syscall.Kill(pid, 0), "the other hold was ended")
	assert.NoError(t, hold.Err())

	out, err = turnwise("release", "-b", "file://"+private, "mine")
	require.NoError(t, err, out)
	require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil }, time.Minute, 10*time.Millisecond)
}
