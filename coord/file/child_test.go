//go:build linux || darwin

package file

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/mortal"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// The test's program runs once more as a process that can be killed, or that is another user's. What it is to do, and where:
const (
	roleVariable = "TURNWISE_FILE_ROLE"
	dirVariable  = "TURNWISE_FILE_DIR"
)

// child does what a child process is to do, and does not return then.
func child() {
	role, dir := os.Getenv(roleVariable), os.Getenv(dirVariable)
	if role == "" {
		return
	}
	roles := map[string]func(dir string) error{
		"count":               func(dir string) error { fmt.Println("ready"); return countIn(dir, 1<<30) },
		"count to 50":         func(dir string) error { return countIn(dir, 50) },
		"make a group":        func(dir string) error { unix.Umask(0o077); return countIn(dir, 50, WithGroup()) },
		"make under a umask":  func(dir string) error { unix.Umask(0o177); return countIn(dir, 1) },
		"wait under a umask":  waitUnderAUmask,
		"visit under a umask": func(dir string) error { unix.Umask(0o777); return countIn(dir, 3) },
		"open": func(dir string) error {
			_, err := Open(context.Background(), dir)
			return err
		},
		"list":             list,
		"listen":           listenAgainAndAgain,
		"run out of files": runOutOfFiles,
		"write little":     writeLittle,
		"leave an heir":    leaveAnHeir,
	}
	if err := roles[role](dir); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func childProcess(role, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, dirVariable+"="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// countIn counts in a register, and says each number that is its own.
func countIn(dir string, times int, opts ...Option) error {
	s, err := Open(context.Background(), dir, opts...)
	if err != nil {
		return err
	}
	defer s.Close()
	var item register.Item
	for n := 0; n < times; {
		count, _ := strconv.Atoi(string(item.Value))
		next := register.Swap{Key: "counter", Old: item.Version, Next: register.NewVersion(), Value: []byte(strconv.Itoa(count + 1))}
		if item, err = s.Swap(context.Background(), next); err == nil {
			fmt.Println(count + 1)
			n++
		} else if !errors.Is(err, register.ErrConflict) {
			return err
		}
	}
	return nil
}

// numbers are those that processes have said.
type numbers struct {
	mu    sync.Mutex
	times map[int]int
}

func (n *numbers) read(t testing.TB, out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		n.add(t, lines.Text())
	}
}

func (n *numbers) add(t testing.TB, line string) {
	if line == "ready" { // which not everybody waits for
		return
	}
	number, err := strconv.Atoi(line)
	if err != nil {
		t.Errorf("a process says %q", line)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.times[number]++
}

func (n *numbers) given() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.times)
}

func (n *numbers) run(t testing.TB, cmd *exec.Cmd) (wait func()) {
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return func() {}
	}
	return func() {
		n.read(t, out)
		_ = cmd.Wait()
	}
}

// check makes sure that each number was said once, except for some that a process was about to say when it was killed.
func (n *numbers) check(t testing.TB, s *Store, killed int) {
	t.Helper()
	item, err := s.Read(t.Context(), "counter")
	if err != nil {
		t.Fatal(err)
	}
	last, _ := strconv.Atoi(string(item.Value))
	for number, times := range n.times {
		if times > 1 {
			t.Errorf("the number %d was given %d times", number, times)
		}
		if number > last {
			t.Errorf("the number %d was given, and the register stands at %d: swaps were lost", number, last)
		}
	}
	if unsaid := last - len(n.times); unsaid > killed {
		t.Errorf("of %d numbers %d were given to nobody, and %d processes were killed", last, unsaid, killed)
	}
	t.Logf("%d numbers, %d of them said, %d processes killed", last, len(n.times), killed)
}

func TestProcessesThatAreKilledLoseAndRepeatNothing(t *testing.T) {
	for name, dir := range places(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, dir)
			n := &numbers{times: make(map[int]int)}
			var killed atomic.Int64
			begun := time.Now()
			enough := func() bool {
				took := time.Since(begun)
				return t.Failed() || took > 5*time.Minute || took > 6*time.Second && killed.Load() >= 60 && n.given() >= 1000
			}
			var all sync.WaitGroup
			for range 20 {
				lives := mortal.Lives{
					Make: func() *exec.Cmd { return childProcess("count", dir) },
					Said: func(line string) { n.add(t, line) },
					Most: 1000,
				}
				all.Go(func() {
					for !enough() {
						if err := lives.Next(); err != nil {
							t.Error(err)
						}
						killed.Add(1)
					}
				})
			}
			all.Wait()
			n.check(t, s, int(killed.Load()))
			if n.given() < 1000 || killed.Load() < 60 {
				t.Errorf("only %d numbers were given, and %d processes killed", n.given(), killed.Load())
			}
		})
	}
}

// asUser makes a process run as another user.
func asUser(t *testing.T, cmd *exec.Cmd, uid, gid uint32) *exec.Cmd {
	if os.Getuid() != 0 {
		t.Skip("only root can run processes of several users")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	return cmd
}

// commonDir is a directory that every user gets to, and the test's program with it.
func commonDir(t *testing.T) (dir string) {
	dir, err := os.MkdirTemp("/tmp", "turnwise")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(dir+"/program", program, 0o755)
	}
	for name, mode := range map[string]os.FileMode{"": 0o777, "/program": 0o755} { // whatever the umask is
		if err == nil {
			err = os.Chmod(dir+name, mode)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestUsersOfAGroupShareADirectory(t *testing.T) {
	common := commonDir(t)
	dir := common + "/locks"
	n := &numbers{times: make(map[int]int)}
	run := func(role string, uid uint32) {
		cmd := asUser(t, childProcess(role, dir), uid, 12345)
		cmd.Path = common + "/program"
		n.run(t, cmd)()
	}
	run("make a group", 12345)
	var both sync.WaitGroup
	for _, uid := range []uint32{12345, 12346} {
		both.Go(func() { run("count to 50", uid) })
	}
	both.Wait()
	if len(n.times) != 150 {
		t.Errorf("%d numbers were given to three processes that each want 50", len(n.times))
	}
	n.check(t, open(t, dir), 0)
}

// list says which registers there are.
func list(dir string) error {
	s, err := Open(context.Background(), dir)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.List(context.Background(), "", func(it register.Item) bool { fmt.Println(it.Key); return true })
}

// Who shares a directory may put a file there that nobody else may read. It stands for one register, and hides no other.
func TestAFileThatOthersMayNotReadHidesNoOther(t *testing.T) {
	common := commonDir(t)
	dir := common + "/locks"
	n := &numbers{times: make(map[int]int)}
	cmd := asUser(t, childProcess("make a group", dir), 12345, 12345)
	cmd.Path = common + "/program"
	n.run(t, cmd)()
	p, err := open(t, dir).enter()
	if err != nil {
		t.Fatal(err)
	}
	defer p.leave()
	name := nameOf("line/hidden")
	if err := p.openShard(t.Context(), shardOf(name)); err != nil {
		t.Fatal(err)
	}
	his := p.shards[shardOf(name)].dir.pathOf(name)
	if err := errors.Join(os.WriteFile(his, []byte("x"), 0o600), os.Chown(his, 12346, 12345)); err != nil {
		t.Fatal(err)
	}
	cmd = asUser(t, childProcess("list", dir), 12345, 12345)
	cmd.Path = common + "/program"
	says, err := cmd.Output()
	if got := strings.Fields(string(says)); err != nil || !slices.Contains(got, "counter") || !slices.Contains(got, "line/hidden") {
		t.Errorf("it says %q: %v", says, err)
	}
}

// listenAgainAndAgain makes the directory of a topic, and removes it, again and again.
func listenAgainAndAgain(dir string) error {
	unix.Umask(0o077)
	s, err := Open(context.Background(), dir)
	if err != nil {
		return err
	}
	defer s.Close()
	for range 2000 {
		stop, err := s.Listen(context.Background(), "topic", func([]byte) {})
		if err != nil {
			return err
		}
		stop()
	}
	return nil
}

// While one user makes a directory within, others of the group may come.
func TestUsersOfAGroupListenAtTheSameTime(t *testing.T) {
	common := commonDir(t)
	dir := common + "/locks"
	asUser(t, exec.Command("true"), 12345, 12345)
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 12345, 12345), os.Chmod(dir, 0o770|os.ModeSetgid)); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for _, uid := range []uint32{12345, 12346, 12347} {
		cmd := asUser(t, childProcess("listen", dir), uid, 12345)
		cmd.Path = common + "/program"
		all.Go(func() {
			if out, err := cmd.Output(); err != nil {
				t.Errorf("user %d: %v: %s", uid, err, out)
			}
		})
	}
	all.Wait()
	left, err := os.ReadDir(dir + "/notes")
	if err != nil || len(left) > 1 {
		t.Errorf("%v are left, %v", left, err)
	}
}

func TestAnotherUserIsRefused(t *testing.T) {
	common := commonDir(t)
	dir := common + "/locks"
	open(t, dir)
	cmd := asUser(t, childProcess("open", dir), 12346, 12346)
	cmd.Path = common + "/program"
	out, err := cmd.Output()
	if err == nil || !strings.Contains(string(out), "denied") || !strings.Contains(string(out), "permission") {
		t.Errorf("another user opens a private directory: %v, %q", err, out)
	}
}

func TestRunningOutOfFilesIsTold(t *testing.T) {
	out, err := childProcess("run out of files", t.TempDir()).Output()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// Somebody else may make a line larger than this process may make a file, and that is no trouble that passes.
func TestALineThatIsLargerThanAFileMayBeIsRefused(t *testing.T) {
	dir := t.TempDir()
	if out, err := childProcess("write little", dir).Output(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	c := storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) { return Connect(ctx, dir) })
	for _, name := range []string{"orders", "other"} {
		if err := storecheck.Locked(t, c, name).Release(); err != nil {
			t.Error(err)
		}
	}
}

func writeLittle(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := Connect(ctx, dir)
	if err != nil {
		return err
	}
	if _, err := mutex.New(c, "orders").Lock(ctx); err != nil {
		return err
	}
	for _, most := range []uint64{100, 0} {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: most, Max: unix.RLIM_INFINITY}); err != nil {
			return err
		}
		_, err = mutex.New(c, "other").Lock(ctx)
		if !errors.Is(err, coord.ErrDenied) || !strings.Contains(err.Error(), "ulimit") {
			return fmt.Errorf("Lock where a file may have %d bytes: %w", most, err)
		}
		_, err := Connect(ctx, filepath.Join(dir, fmt.Sprint("new", most)))
		if !errors.Is(err, coord.ErrDenied) || !strings.Contains(err.Error(), "ulimit") {
			return fmt.Errorf("Connect where a file may have %d bytes: %w", most, err)
		}
	}
	return nil
}

// A umask may take from a process what it may do in the directories that it makes. They would be in the way of all later ones.
func TestAUmaskSpoilsNoDirectory(t *testing.T) {
	common := commonDir(t)
	run := func(t *testing.T, role, dir string, uid uint32) (said string, err error) {
		cmd := asUser(t, childProcess(role, dir), uid, uid)
		cmd.Path = common + "/program"
		out, err := cmd.Output()
		return string(out), err
	}
	for _, role := range []string{"make under a umask", "wait under a umask", "visit under a umask"} {
		t.Run(role, func(t *testing.T) {
			dir := filepath.Join(common, strings.ReplaceAll(role, " ", "-"))
			uid := uint32(12346)
			if role != "make under a umask" {
				if said, err := run(t, "open", dir, uid); err != nil {
					t.Fatalf("%v: %s", err, said)
				}
			}
			if role == "visit under a umask" {
				uid = 0
			}
			said, err := run(t, role, dir, uid)
			if uid != 0 && (err == nil || !strings.Contains(said, "umask")) || uid == 0 && err != nil {
				t.Errorf("%v: %s", err, said)
			}
			if said, err := run(t, "count to 50", dir, 12346); err != nil {
				t.Errorf("after that: %v: %s", err, said)
			}
			if topics, err := os.ReadDir(filepath.Join(dir, notesDir)); err != nil || len(topics) > 0 {
				t.Errorf("it has left %v, %v", topics, err)
			}
		})
	}
}

func waitUnderAUmask(dir string) error {
	s, err := Open(context.Background(), dir)
	if err != nil {
		return err
	}
	defer s.Close()
	unix.Umask(0o177)
	_, err = s.Listen(context.Background(), "topic", func([]byte) {})
	return err
}

func runOutOfFiles(dir string) error {
	s, err := Open(context.Background(), dir)
	if err != nil {
		return err
	}
	if _, err := s.Swap(context.Background(), register.Swap{Key: "k", Next: register.NewVersion()}); err != nil {
		return err
	}
	var few unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		return err
	}
	few.Cur = 3
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		return err
	}
	_, err = s.Read(context.Background(), "k")
	if !errors.Is(err, unix.EMFILE) || !strings.Contains(err.Error(), "ulimit") {
		return fmt.Errorf("Read without a file to spare: %w", err)
	}
	few.Cur = 100
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		return err
	}
	_, err = s.Read(context.Background(), "k")
	return err
}
