package run

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The tests of this package run one after another: a process has one tree at a time.

func shell(line string) Command {
	return Command{Path: "/bin/sh", Args: []string{"sh", "-c", line}, Env: os.Environ()}
}

// outcome waits until all processes have gone, and returns what happened before.
func outcome(t *testing.T, c *Tree) (events []Event) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case e, more := <-c.Events():
			if !more {
				return events
			}
			events = append(events, e)
		case <-late:
			t.Fatal("it does not end: ", events)
		}
	}
}

// heir starts a process that ignores TERM, detaches itself by a session and a double fork, and writes to a file for as long
// as it lives.
const heir = `setsid sh -c 'trap "" TERM HUP; (while :; do echo x >>alive; sleep 0.01; done) &' & `

func TestHowCommandsAreEndedIsSaid(t *testing.T) {
	dir, err := NewCgroup()
	if err == nil {
		RemoveCgroup(dir)
	}
	assert.Equal(t, err == nil, strings.Contains(Means(), "control group"), "a control group: %v", err)
}

func TestAllThatDetachItselfIsFound(t *testing.T) {
	for name, group := range map[string]func(t *testing.T) string{
		"as descendants": func(*testing.T) string { return "" },
		"as descendants, without pidfd": func(t *testing.T) string {
			without := func(int, int) (int, error) { return -1, unix.ENOSYS }
			pidfdOpen = without
			t.Cleanup(func() { pidfdOpen = unix.PidfdOpen })
			assert.Contains(t, Means(), "there is no pidfd here")
			return ""
		},
		"by a control group": func(t *testing.T) string {
			dir, err := NewCgroup()
			if err != nil {
				t.Skip(err)
			}
			t.Cleanup(func() {
				RemoveCgroup(dir)
				assert.NoDirExists(t, dir)
			})
			return dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			c := shell(heir + `touch ready; exec sleep 1000`)
			c.Cgroup = group(t)
			tree, err := Start(c)
			require.NoError(t, err)
			require.Eventually(t, func() bool { _, err := os.Stat("alive"); return err == nil }, time.Minute, 10*time.Millisecond)
			tree.End(100 * time.Millisecond)
			events := outcome(t, tree)
			assert.Equal(t, Exited, events[len(events)-2].What)
			assert.Equal(t, 143, events[len(events)-2].Code, "the command itself has heard TERM")
			assert.Equal(t, Gone, events[len(events)-1].What)
			before, _ := os.Stat("alive")
			time.Sleep(100 * time.Millisecond)
			after, _ := os.Stat("alive")
			assert.Equal(t, before.Size(), after.Size(), "somebody is left")
		})
	}
}

// What turnwise and its guardian have left when both were killed goes when the next one comes.
func TestAnEmptyControlGroupOfTheDeadIsRemoved(t *testing.T) {
	own, err := ownCgroup()
	if err != nil {
		t.Skip(err)
	}
	c := exec.Command("true")
	require.NoError(t, c.Run())
	left := fmt.Sprintf("%s/turnwise-%d-1", own, c.Process.Pid)
	living := fmt.Sprintf("%s/turnwise-%d-1", own, os.Getpid())
	for _, dir := range []string{left, living} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Skip(err)
		}
		defer os.Remove(dir)
	}
	dir, err := NewCgroup()
	require.NoError(t, err)
	RemoveCgroup(dir)
	assert.NoDirExists(t, left)
	assert.DirExists(t, living)
}

// A process that has ended is not taken for the one that has its number now.
func TestAProcessIsKnownByMoreThanItsNumber(t *testing.T) {
	for name, by := range map[string]func(int, int) (int, error){
		"by pidfd":           unix.PidfdOpen,
		"by when it started": func(int, int) (int, error) { return -1, unix.EPERM },
	} {
		t.Run(name, func(t *testing.T) {
			pidfdOpen = by
			defer func() { pidfdOpen = unix.PidfdOpen }()
			c := exec.Command("sleep", "1000")
			require.NoError(t, c.Start())
			p, err := Find(c.Process.Pid)
			require.NoError(t, err)
			defer p.Close()
			assert.True(t, p.Alive())
			q := *p
			q.began += "0" // as it would be if the number had gone to another
			assert.Equal(t, p.fd >= 0, q.Alive())
			require.NoError(t, c.Process.Kill())
			assert.Eventually(t, func() bool { return !p.Alive() }, time.Minute, time.Millisecond, "a zombie has ended")
			_ = c.Wait()
			assert.False(t, p.Alive())
			_, err = Find(c.Process.Pid)
			assert.ErrorIs(t, err, syscall.ESRCH)
		})
	}
}

func TestGoneIsWhenTheLastIs(t *testing.T) {
	t.Chdir(t.TempDir())
	tree, err := Start(shell(`setsid sh -c '(sleep 0.3; touch late) &' & exit 3`))
	require.NoError(t, err)
	events := outcome(t, tree)
	assert.FileExists(t, "late")
	assert.Equal(t, []What{Started, Exited, Gone}, []What{events[0].What, events[1].What, events[2].What})
	assert.Equal(t, 3, events[1].Code)
}

func TestTheCommandAloneCounts(t *testing.T) {
	t.Chdir(t.TempDir())
	c := shell(`(while test ! -e enough; do sleep 0.01; done) & exit 3`)
	c.Alone = true
	tree, err := Start(c)
	require.NoError(t, err)
	outcome(t, tree)
	require.NoError(t, os.WriteFile("enough", nil, 0o600))
	KillAll("")
}

// What a keeper that has died leaves behind is killed; one that lives, and all that is in its care, is spared.
func TestWhatDeadKeepersLeaveIsKilled(t *testing.T) {
	t.Chdir(t.TempDir())
	Adopt()
	keeper := func(line string) (*exec.Cmd, func()) {
		cmd := exec.Command("/bin/sh", "-c", line)
		_, forget, err := Keep(func() (*os.Process, error) { err := cmd.Start(); return cmd.Process, err })
		require.NoError(t, err)
		return cmd, forget
	}
	dead, forgetDead := keeper(heir + `while test ! -e alive; do sleep 0.01; done`)
	living, forgetLiving := keeper(`(while :; do echo x >>spared; sleep 0.01; done) & wait`)
	require.NoError(t, dead.Wait())
	forgetDead()
	KillAll("")
	size := func(file string) int64 { st, err := os.Stat(file); require.NoError(t, err); return st.Size() }
	left, spared := size("alive"), size("spared")
	require.Eventually(t, func() bool { return size("spared") > spared+4 }, time.Minute, 10*time.Millisecond, "it was not spared")
	assert.Equal(t, left, size("alive"), "somebody is left")

	require.NoError(t, living.Process.Kill())
	_ = living.Wait()
	forgetLiving()
	KillAll("")
	assert.Empty(t, descendants(os.Getpid(), nil))
}

// A limit that passes ends the command, stopped or not; one that is moved further off does not.
func TestTheLimit(t *testing.T) {
	t.Chdir(t.TempDir())
	tree, err := Start(shell(`kill -STOP $$; sleep 1000`))
	require.NoError(t, err)
	for range 20 {
		tree.Limit(Limit{Term: In(time.Second), Kill: In(2 * time.Second)})
		time.Sleep(100 * time.Millisecond)
	}
	began := Now()
	tree.Limit(Limit{Term: In(100 * time.Millisecond), Kill: In(30 * time.Second)})
	events := outcome(t, tree)
	assert.GreaterOrEqual(t, began.Until(), -30*time.Second, "it has heard TERM only when it was killed")
	var all []What
	for _, e := range events {
		all = append(all, e.What)
	}
	assert.Equal(t, []What{Started, Stopped, Endangered, Exited, Gone}, all)
	tree.Limit(Limit{}) // late calls do no harm
	tree.End(0)
}

// Even a process that starts others faster than they can be listed is caught.
func TestABombOfForks(t *testing.T) {
	t.Chdir(t.TempDir())
	tree, err := Start(shell(`trap "" TERM; f() { test $1 = 0 || { (f $(($1-1))) & (f $(($1-1))) & sleep 5; }; }; f 6; sleep 5`))
	require.NoError(t, err)
	time.Sleep(50 * time.Millisecond)
	tree.End(0)
	began := time.Now()
	outcome(t, tree)
	assert.Less(t, time.Since(began), 30*time.Second)
	assert.Empty(t, descendants(os.Getpid(), nil))
}

func TestWhatCannotBeStarted(t *testing.T) {
	_, err := Start(Command{Path: "/none", Args: []string{"none"}})
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = Start(Command{Path: "/etc/passwd", Args: []string{"passwd"}})
	assert.ErrorIs(t, err, os.ErrPermission)
	_, err = Start(Command{Path: "/none", Args: []string{"none"}, Cgroup: "/none"})
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// When the command and all in its process group have gone, the group's number may be somebody else's.
func TestAGroupThatIsSomebodyElsesGetsNoSignal(t *testing.T) {
	if !alone(t) {
		return
	}
	t.Chdir(t.TempDir())
	take := takeNumber(t)
	tree, err := Start(shell(heir + `until test -e alive; do sleep 0.01; done`)) // the heir is in another group
	require.NoError(t, err)
	require.Equal(t, Started, (<-tree.Events()).What)
	require.Equal(t, Exited, (<-tree.Events()).What)
	stranger := tree.pid
	take(stranger)
	tree.Signal(syscall.SIGTERM)
	tree.End(0)
	outcome(t, tree)
	assert.NoError(t, unix.Kill(stranger, 0))
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", stranger))
	require.NoError(t, err)
	assert.NotContains(t, string(state), ") Z ", "a stranger was killed")
	before, _ := os.Stat("alive")
	time.Sleep(100 * time.Millisecond)
	after, _ := os.Stat("alive")
	assert.Equal(t, before.Size(), after.Size(), "somebody is left")
}

// alone reports whether nobody else starts processes here. If somebody may, it runs the test again where nobody does: in a PID
// namespace of its own, in which a number that was asked for does not go to another one first.
func alone(t *testing.T) bool {
	t.Helper()
	const inside = "THIS_TEST_IS_ALONE"
	if os.Getenv(inside) != "" {
		return true
	}
	// The shell is there to have number 1, which inherits what others leave behind.
	again := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "/bin/sh", "-c", `"$0" "$@"; exit $?`,
		os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	again.Env = append(os.Environ(), inside+"=1")
	said, err := again.CombinedOutput()
	if err != nil && !strings.Contains(string(said), "=== RUN") {
		t.Skipf("there is no PID namespace to be had: %v: %s", err, said)
	}
	require.NoError(t, err, "%s", said)
	t.Logf("%s", said)
	return false
}

// takeNumber returns a function that starts a process with a number, the leader of a group of that number. It is no
// descendant of this process, and so it has to be asked for before there is a tree.
func takeNumber(t *testing.T) func(number int) {
	t.Helper()
	const last = "/proc/sys/kernel/ns_last_pid"
	f, err := os.OpenFile(last, os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no process can be given a number here: ", err)
	}
	f.Close()
	require.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0))
	script := fmt.Sprintf(`(for i in $(seq 1000); do test -s number && break; sleep 0.02; done; read n <number
	for i in $(seq 200); do
		echo $((n-1)) >%s; setsid sleep 100 & test $! = $n && break; kill -9 $!
	done; touch taken) </dev/null >/dev/null 2>&1 &`, last)
	require.NoError(t, exec.Command("/bin/sh", "-c", script).Run())
	return func(number int) {
		require.NoError(t, os.WriteFile("n", fmt.Appendln(nil, number), 0o600))
		require.NoError(t, os.Rename("n", "number"))
		require.Eventually(t, func() bool { _, err := os.Stat("taken"); return err == nil }, time.Minute, 10*time.Millisecond)
		t.Cleanup(func() { _ = unix.Kill(number, unix.SIGKILL) })
		assert.Eventually(t, func() bool { group, err := unix.Getpgid(number); return err == nil && group == number },
			10*time.Second, time.Millisecond)
	}
}

// Whoever is told something by a signal would lose what it has started, if that got the signal as well.
func TestTheCommandAloneIsTold(t *testing.T) {
	t.Chdir(t.TempDir())
	there := func(file string) bool { _, err := os.Stat(file); return err == nil }
	tree, err := Start(shell(`trap 'touch told' USR1; sleep 1000 & touch ready; until test -e told; do sleep 0.05; done; kill -0 $! && touch alive; kill $!`))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return there("ready") }, time.Minute, 10*time.Millisecond)
	tree.Tell(syscall.SIGUSR1)
	outcome(t, tree)
	assert.True(t, there("alive"))
	tree.Tell(syscall.SIGUSR1) // it has gone
}
