//go:build linux || darwin

package sharedfile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/file"
	"github.com/turnwise/turnwise/fence"
	"github.com/turnwise/turnwise/internal/mortal"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// The test program runs again in this role, as a process that can be killed or stopped, or that belongs to another
// user.
const roleVariable = "TURNWISE_SHAREDFILE_ROLE"

func TestMain(m *testing.M) {
	syscall.Umask(0o022) // whatever the shell's is: what users of a group write, all of them must be able to read
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	roles := map[string]func(path, locks string) error{
		"count":   countUnderLock,
		"once":    func(path, _ string) error { return publishOnce(path) },
		"stopped": stoppedInTheMiddle,
	}
	if err := roles[role](os.Getenv("WHERE"), os.Getenv("LOCKS")); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func childProcess(role, path, locks string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, "WHERE="+path, "LOCKS="+locks)
	cmd.Stderr = os.Stderr
	return cmd
}

// filler makes a version so long that it takes several writes.
var filler = strings.Repeat("0123456789abcdef", 4096)

// count replaces a number with the next one, and adds what tells whether a version is whole.
func count(f *File, w io.Writer) (next int, err error) {
	number, err := numberIn(f)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	next = number + 1
	for _, part := range []string{strconv.Itoa(next) + "\n", filler, filler, "\n" + strconv.Itoa(next)} {
		if _, err := io.WriteString(w, part); err != nil {
			return 0, err
		}
	}
	return next, nil
}

func numberIn(f *File) (number int, err error) {
	err = f.Read(context.Background(), func(r io.Reader) error {
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		number, err = whole(string(text))
		return err
	})
	return number, err
}

// whole returns the number in a version, or an error if part of the version is missing.
func whole(text string) (int, error) {
	first, rest, _ := strings.Cut(text, "\n")
	last, ok := strings.CutPrefix(rest, filler+filler+"\n")
	if !ok || first != last {
		return 0, fmt.Errorf("the version is not whole: %d bytes, %.20q to %.20q", len(text), first, last)
	}
	return strconv.Atoi(first)
}

func countUnderLock(path, locks string) error {
	client, err := file.Connect(context.Background(), locks)
	if err != nil {
		return err
	}
	f, err := Open(mutex.New(client, "file"), path, Keep(2))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		next := 0
		err := f.Write(context.Background(), func(w io.Writer) (err error) {
			next, err = count(f, w)
			return err
		})
		if err != nil {
			return err
		}
		fmt.Println(next)
	}
}

// Whenever a writer is killed, no version is lost, none is written twice, and none is half there.
func TestWritersThatAreKilledLoseAndRepeatNothing(t *testing.T) {
	dir := inMemory(t)
	f, err := Open(nil, dir+"/file")
	require.NoError(t, err)
	var mu sync.Mutex
	said, killed := make(map[int]int), 0
	begun := time.Now()
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		took := time.Since(begun)
		return t.Failed() || took > 5*time.Minute || took > 6*time.Second && killed >= 30 && len(said) >= 100
	}
	var all sync.WaitGroup
	for range 3 {
		lives := mortal.Lives{
			Make: func() *exec.Cmd { return childProcess("count", dir+"/file", dir+"/locks") },
			Said: func(line string) {
				number, err := strconv.Atoi(line)
				if err != nil {
					t.Errorf("a writer says %q", line)
				}
				mu.Lock()
				defer mu.Unlock()
				said[number]++
			},
			Most: 60,
		}
		all.Go(func() {
			for !enough() {
				if err := lives.Next(); err != nil {
					t.Error(err)
				}
				mu.Lock()
				killed++
				mu.Unlock()
			}
		})
	}
	stop, reads := make(chan struct{}), 0
	go func() { all.Wait(); close(stop) }()
	for last, done := 0, false; !done; {
		select {
		case <-stop:
			done = true
		default:
		}
		number, err := numberIn(f)
		if errors.Is(err, os.ErrNotExist) && last == 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		require.NoError(t, err)
		assert.GreaterOrEqual(t, number, last, "a reader goes back")
		last = number
		reads++
		if text, err := os.ReadFile(dir + "/file"); err == nil {
			_, err = whole(string(text))
			assert.NoError(t, err, "at the path itself")
		}
	}
	last, err := numberIn(f)
	require.NoError(t, err)
	for number, times := range said {
		assert.Equal(t, 1, times, "number %d", number)
		assert.LessOrEqual(t, number, last)
	}
	assert.LessOrEqual(t, last-len(said), killed, "versions that nobody has written")
	t.Logf("%d versions, %d of them said, %d writers killed, %d reads", last, len(said), killed, reads)
	assert.GreaterOrEqual(t, killed, 30)
	assert.GreaterOrEqual(t, len(said), 100)

	// After one more writer, nothing is left of the dead ones.
	require.NoError(t, f.Publish(t.Context(), fence.Stamp{Epoch: 1, Token: 1}, func(w io.Writer) error {
		_, err := io.WriteString(w, "last")
		return err
	}))
	entries, err := os.ReadDir(dir + "/file.versions")
	require.NoError(t, err)
	assert.Len(t, entries, 3)
}

// stoppedInTheMiddle writes half a version, says so, and writes the other half when it goes on.
func stoppedInTheMiddle(path, locks string) error {
	client, err := file.Connect(context.Background(), locks)
	if err != nil {
		return err
	}
	hold, err := mutex.New(client, "file").Lock(context.Background())
	if err != nil {
		return err
	}
	f, err := Open(nil, path)
	if err != nil {
		return err
	}
	stamp := fence.Stamp{Token: hold.Token()}
	in := bufio.NewReader(os.Stdin)
	err = f.Publish(context.Background(), stamp, func(w io.Writer) error {
		_, err := io.WriteString(w, "half and ")
		fmt.Println("half")
		_, _ = in.ReadString('\n') // it is stopped here
		if err == nil {
			_, err = io.WriteString(w, "half")
		}
		return err
	})
	fmt.Println(errors.Is(err, coord.ErrStale), err)

	taken := 0
	for range 2000 {
		err := f.Publish(context.Background(), stamp, func(w io.Writer) error {
			_, err := io.WriteString(w, "stale")
			return err
		})
		if !errors.Is(err, coord.ErrStale) {
			taken++
		}
	}
	fmt.Println("taken:", taken)

	// Nor is anything read that it links by hand, in its own name, past all checks.
	draft, err := os.CreateTemp(path+".versions", "")
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	if _, err := draft.WriteString("forged"); err != nil {
		return err
	}
	linked := 0
	for n := range 2000 {
		if os.Link(draft.Name(), f.at(name{stamp: stamp, n: uint64(n + 1)})) == nil {
			linked++
		}
	}
	fmt.Println("linked:", linked)
	return nil
}

func TestAWriterThatIsStoppedAndGoesOnIsNotRead(t *testing.T) {
	path, locks := t.TempDir()+"/file", t.TempDir()+"/locks"
	client, err := file.Connect(t.Context(), locks)
	require.NoError(t, err)
	defer client.Close()
	f, err := Open(mutex.New(client, "file"), path)
	require.NoError(t, err)
	write := func(text string) {
		t.Helper()
		require.NoError(t, f.Write(t.Context(), func(w io.Writer) error { _, err := io.WriteString(w, text); return err }))
	}
	write("first")

	cmd := childProcess("stopped", path, locks)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(out)
	says := func() string { lines.Scan(); return lines.Text() }
	require.Equal(t, "half", says())
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	var state syscall.WaitStatus
	_, err = syscall.Wait4(cmd.Process.Pid, &state, syscall.WUNTRACED, nil) // a thread may run on for a moment
	require.NoError(t, err)
	require.True(t, state.Stopped())
	_, err = io.WriteString(in, "go on\n")
	require.NoError(t, err)

	line, err := client.Line(t.Context(), "file")
	require.NoError(t, err)
	require.NoError(t, client.Break(t.Context(), line[0])) // nobody waits for a process that is stopped
	assert.Equal(t, "first", content(t, f))
	write("second")
	read := func() { // all the time from here on
		assert.Equal(t, "second", content(t, f))
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	done := make(chan []string)
	go func() { done <- []string{says(), says(), says()} }()
	for {
		read()
		select {
		case said := <-done:
			read()
			assert.Contains(t, said[0], "true turnwise: publish "+path+": token is stale")
			assert.Equal(t, "taken: 0", said[1])
			assert.Equal(t, "linked: 2000", said[2])
			plain, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, "second", string(plain))
			write("third") // removes the forgeries
			entries, err := os.ReadDir(path + ".versions")
			require.NoError(t, err)
			assert.Less(t, len(entries), 10)
			return
		default:
		}
	}
}

// A process is stopped while it removes old versions, or while it looks which ones there are.
func TestOneWhoIsStoppedWithTheDirectoryLockedStopsNobody(t *testing.T) {
	for what, lock := range map[string]func(*os.File) (bool, bool){"it removes": lockAlone, "it looks": lockShared} {
		t.Run(what, func(t *testing.T) {
			f := open(t, Keep(1))
			publish(t, f, 1, "first")
			stopped, err := os.Open(f.dir)
			require.NoError(t, err)
			defer stopped.Close()
			locked, _ := lock(stopped)
			require.True(t, locked)
			for token := range coord.Token(5) {
				publish(t, f, token+2, fmt.Sprint(token))
				assert.Equal(t, fmt.Sprint(token), content(t, f))
			}
			assert.ErrorIs(t, f.Publish(t.Context(), fence.Stamp{Token: 5}, text("stale")), coord.ErrStale)
			assert.Contains(t, entries(t, f), "0.1.1", "nothing is removed meanwhile")
			stopped.Close()
			publish(t, f, 9, "last")
			assert.Equal(t, []string{"0.9.1"}, entries(t, f))
		})
	}
}

func publishOnce(path string) error {
	token, err := strconv.Atoi(os.Getenv("TOKEN"))
	if err != nil {
		return err
	}
	f, err := Open(nil, path)
	if err != nil {
		return err
	}
	syscall.Umask(0o002)
	return f.Publish(context.Background(), fence.Stamp{Token: coord.Token(token)}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "by %d", os.Getuid())
		return err
	})
}

// once has another user publish, and returns what it says.
func once(t *testing.T, program, path string, uid uint32, token int) string {
	if os.Getuid() != 0 {
		t.Skip("only root can run processes of several users")
	}
	cmd := childProcess("once", path, "")
	cmd.Path = program
	cmd.Env = append(cmd.Env, fmt.Sprint("TOKEN=", token))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: 12345}}
	out, _ := cmd.Output()
	return string(out)
}

// commonDir is a directory that a group may write to, and a program that everybody may run.
func commonDir(t *testing.T) (dir, program string) {
	dir, err := os.MkdirTemp("/tmp", "turnwise")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	text, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	program = dir + "/program"
	require.NoError(t, os.WriteFile(program, text, 0o755))
	require.NoError(t, os.Chown(dir, -1, 12345))
	require.NoError(t, os.Chmod(dir, 0o2775))
	return dir, program
}

// Linux does not let users link to the files of others that they may not write to (fs.protected_hardlinks).
func TestUsersOfAGroupShareAFile(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can run processes of several users")
	}
	dir, program := commonDir(t)
	f, err := Open(nil, dir+"/file")
	require.NoError(t, err)
	for i, uid := range []uint32{12345, 12346, 12345, 12347, 12346} {
		assert.Empty(t, once(t, program, dir+"/file", uid, i+1))
		assert.Equal(t, fmt.Sprintf("by %d", uid), content(t, f))
		plain, err := os.ReadFile(dir + "/file")
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("by %d", uid), string(plain))
	}
}

func TestAUserWhoMayNotWriteIsTold(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can run processes of several users")
	}
	dir, program := commonDir(t)
	require.NoError(t, os.Chmod(dir, 0o755))
	assert.Contains(t, once(t, program, dir+"/file", 12345, 1), "turnwise: publish "+dir+"/file: mkdir "+dir+"/file.versions: permission denied")
	f, err := Open(nil, dir+"/file")
	require.NoError(t, err)
	publish(t, f, 2, "root's")
	assert.Contains(t, once(t, program, dir+"/file", 12345, 3), "permission denied")
	assert.Equal(t, "root's", content(t, f))
	publish(t, f, 2, "root's again")
}
