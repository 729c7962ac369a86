package servers

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestChildrenDieWithAParentThatIsKilled(t *testing.T) {
	if os.Getenv("TURNWISE_TEST_PARENT") != "" {
		child, err := StartProcess(exec.Command("sleep", "600"))
		require.NoError(t, err)
		fmt.Println("child", child.Pid())
		time.Sleep(10 * time.Minute)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestChildrenDieWithAParentThatIsKilled$")
	cmd.Env = append(os.Environ(), "TURNWISE_TEST_PARENT=1")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	parent, err := StartProcess(cmd)
	require.NoError(t, err)
	child := 0
	for lines := bufio.NewScanner(stdout); child == 0 && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "child "); ok {
			child, err = strconv.Atoi(text)
			require.NoError(t, err)
		}
	}
	require.NoError(t, syscall.Kill(child, 0))

	parent.Kill()

	require.Eventually(t, func() bool { return !alive(child) }, 10*time.Second, 10*time.Millisecond)
}

// alive does not count zombies: a killed orphan stays one where nobody reaps orphans, as in some containers.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestASignalForAProcessThatIsGoneGoesToNobody(t *testing.T) {
	p, err := StartProcess(exec.Command("true"))
	require.NoError(t, err)
	<-p.Exited()
	p.Freeze()
	p.Thaw()
	p.Kill()
	require.False(t, p.Alive())
}

func TestAFrozenProcessStandsStillWhenFreezeReturns(t *testing.T) {
	p, err := StartProcess(exec.Command("sleep", "600"))
	require.NoError(t, err)
	defer p.Kill()
	p.Freeze()
	require.True(t, p.Frozen())
	require.True(t, allThreadsStopped(p.Pid()))
	p.Thaw()
	require.False(t, p.Frozen())
	p.Freeze() // and a frozen one can be killed
}

func TestAStrangersPortIsNotTakenForOurs(t *testing.T) {
	stranger, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer stranger.Close()
	p, err := StartProcess(exec.Command("sleep", "600"))
	require.NoError(t, err)
	defer p.Kill()
	port := stranger.Addr().(*net.TCPAddr).Port
	require.False(t, p.listens(port))

	if _, err := findEtcd(false); err != nil {
		skip(t, err)
	}
	_, err = StartEtcd(t.Context(), t.TempDir(), Flags("--listen-client-urls=http://"+stranger.Addr().String()))
	require.True(t, errors.Is(err, errPortTaken), "other ports were tried, in vain, as the flag insists on this one: %v", err)
}

func TestTwoReservationsNeverGiveTheSamePort(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		r, err := reservePort()
		require.NoError(t, err)
		defer r.release()
		require.False(t, seen[r.port])
		seen[r.port] = true
	}
}

func TestAFrozenServersChildrenDieWithAParentThatIsKilled(t *testing.T) {
	if os.Getenv("TURNWISE_TEST_PARENT") != "" {
		// In sessions of their own, as PostgreSQL's are: otherwise the kernel would wake them when their parent dies.
		child, err := StartProcess(exec.Command("sh", "-c", "setsid sleep 600 & setsid sleep 600 & wait"))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return len(offspring(child.Pid())) == 2 }, 10*time.Second, time.Millisecond)
		child.Freeze()
		fmt.Println("family", child.Pid(), strings.Trim(fmt.Sprint(offspring(child.Pid())), "[]"))
		time.Sleep(10 * time.Minute)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "TURNWISE_TEST_PARENT=1")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	parent, err := StartProcess(cmd)
	require.NoError(t, err)
	var family []int
	for lines := bufio.NewScanner(stdout); family == nil && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "family "); ok {
			for pid := range strings.FieldsSeq(text) {
				n, err := strconv.Atoi(pid)
				require.NoError(t, err)
				family = append(family, n)
			}
		}
	}
	require.Len(t, family, 3)

	// As an outsider would do it: the parent's own children are left to the kernel.
	require.NoError(t, syscall.Kill(parent.Pid(), syscall.SIGKILL))

	for _, pid := range family {
		require.Eventually(t, func() bool { return !alive(pid) }, 10*time.Second, 10*time.Millisecond)
	}
}

func TestAProcessIsFrozenThawedAndKilledWithItsChildren(t *testing.T) {
	p, err := StartProcess(exec.Command("sh", "-c", "sleep 600 & sleep 600 & wait"))
	require.NoError(t, err)
	defer p.Kill()
	require.Eventually(t, func() bool { return len(offspring(p.Pid())) == 2 }, 10*time.Second, time.Millisecond)
	family := offspring(p.Pid())
	p.Freeze()
	for _, pid := range family {
		require.True(t, allThreadsStopped(pid))
	}
	p.Freeze() // once more changes nothing
	p.Thaw()
	for _, pid := range family {
		require.Eventually(t, func() bool { return !allThreadsStopped(pid) }, 10*time.Second, time.Millisecond)
	}
	p.Freeze()
	p.Kill()
	for _, pid := range family {
		require.Eventually(t, func() bool { return !alive(pid) }, 10*time.Second, time.Millisecond)
	}
}
