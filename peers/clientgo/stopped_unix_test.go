//go:build unix

package clientgo_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/turnwise/turnwise/coord/file"
	"github.com/turnwise/turnwise/peers/clientgo"
	"github.com/turnwise/turnwise/recipes/election"
)

const stoppedDir = "TURNWISE_TEST_STOPPED_DIR"

// TestCandidate is a process that stands for election, for the test below.
func TestCandidate(t *testing.T) {
	dir := os.Getenv(stoppedDir)
	if dir == "" {
		t.Skip("it is another test's process")
	}
	c, err := file.Connect(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	lock := clientgo.New(election.New(c, "reports"), strconv.Itoa(os.Getpid()))
	for {
		leaderelection.RunOrDie(t.Context(), leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 4 * time.Second, RenewDeadline: 2500 * time.Millisecond, RetryPeriod: 500 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
						fmt.Println("works", time.Now().UnixNano())
					}
				},
				OnStoppedLeading: func() {},
			},
		})
	}
}

// process is such a one. It tells when it worked as the leader.
type process struct {
	*exec.Cmd
	mu    sync.Mutex
	first time.Time
	last  time.Time
}

func stands(t *testing.T, dir string) *process {
	t.Helper()
	c := &process{Cmd: exec.Command(os.Args[0], "-test.run", "^TestCandidate$", "-test.v")}
	c.Env = append(os.Environ(), stoppedDir+"="+dir)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(out); s.Scan(); {
			_, at, works := strings.Cut(s.Text(), "works ")
			ns, err := strconv.ParseInt(at, 10, 64)
			if !works || err != nil {
				continue
			}
			c.mu.Lock()
			if c.last = time.Unix(0, ns); c.first.IsZero() {
				c.first = c.last
			}
			c.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-read
		_ = c.Wait()
	})
	return c
}

func (c *process) worked() (first, last time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first, c.last
}

// A process that was stopped for longer than a LeaseDuration goes on, and its elector believes that it leads until it has asked again. Its
// session has outlasted that: here the kernel keeps it.
func TestNobodyLeadsBesideOneThatWasStoppedAndStillBelieves(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := stands(t, dir)
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(50 * time.Millisecond) {
		if from, to := first.worked(); to.Sub(from) > 3*time.Second {
			break
		}
	}
	second := stands(t, dir)
	time.Sleep(3 * time.Second)
	_ = first.Process.Signal(syscall.SIGSTOP)
	time.Sleep(4600 * time.Millisecond)
	_ = first.Process.Signal(syscall.SIGCONT)
	time.Sleep(12 * time.Second)
	from, _ := second.worked()
	if _, last := first.worked(); !from.IsZero() && last.After(from) {
		t.Errorf("the first went on for %v when the second led", last.Sub(from))
	}
}
