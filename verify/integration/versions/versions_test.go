//go:build linux

package versions

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/trace"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

const members = 3 // of a round at the workers' barrier

const short = "session=4s&longest-session=4s"

// backends are all services. Each has a server of its own.
var backends = []struct {
	name string
	url  func(t *testing.T) string
}{
	{"file", func(t *testing.T) string { return "file://" + t.TempDir() + "/locks" }},
	{"ZooKeeper", func(t *testing.T) string {
		return "zk://" + strings.Join(servers.ZooKeeper(t, servers.Members(3)).Addrs(), ",") + "/locks?session=4s"
	}},
	{"etcd", func(t *testing.T) string {
		return "etcd://" + strings.Join(servers.Etcd(t, servers.Members(3)).Addrs(), ",") + "/locks?session=4s"
	}},
	{"Redis", func(t *testing.T) string {
		return "redis://" + servers.Redis(t, servers.AppendOnly("always")).Addrs()[0] + "?" + short
	}},
	{"a quorum of Redis", func(t *testing.T) string {
		return "redis://" + strings.Join(servers.Redis(t, servers.Members(3), servers.AppendOnly("always")).Addrs(), ",") + "?" + short
	}},
	{"PostgreSQL", func(t *testing.T) string { return servers.Postgres(t).URL() + "&" + short }},
	{"MariaDB", func(t *testing.T) string { return servers.MariaDB(t).URL() + "?" + short }},
	{"memcached", func(t *testing.T) string {
		return "memcached://" + servers.Memcached(t, servers.Flags("-M")).Addrs()[0] + "?" + short
	}},
	{"NATS", func(t *testing.T) string { return "nats://" + servers.NATS(t).Addrs()[0] + "?" + short }},
	{"Kube", func(t *testing.T) string {
		c := servers.Kube(t)
		token := filepath.Join(t.TempDir(), "token")
		require.NoError(t, os.WriteFile(token, []byte(servers.KubeAdmin), 0o600))
		return "kube://default?" + short + "&server=" + c.URL() + "&ca=" + c.KubeCA() + "&token-file=" + token
	}},
}

// Four processes of the older version share the lines of a service. One by one they are replaced by today's, and then those by older
// ones again, while all lines stay busy; one is killed on the way up and one on the way down. Half way, when two of each are there,
// they are seen to meet everywhere, and to be served as they came.
func TestOlderProcessesBesideTodays(t *testing.T) {
	t.Parallel()
	older, today := build(t)
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, b.url(t))
			for range 4 {
				s.add(older, "old")
			}
			s.settle()
			for i := range 4 {
				if s.replace(today, "new", i == 1); i == 1 {
					s.meet()
				}
			}
			for i := range 4 {
				s.replace(older, "old", i == 2)
			}
			s.close()
		})
	}
}

// scene is a service with workers on it.
type scene struct {
	t        *testing.T
	ctx      context.Context
	url, dir string
	client   *coord.Client
	workers  []*worker // the one that has been there for the longest first
	started  int
}

type worker struct {
	name    string
	process *servers.Process
	in      io.WriteCloser
	cmd     *exec.Cmd
}

func open(t *testing.T, url string) *scene {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	client, err := backend.Open(ctx, url)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return &scene{t: t, ctx: ctx, url: url, dir: t.TempDir(), client: client}
}

func (s *scene) add(program string, version string) *worker {
	s.started++
	w := &worker{name: fmt.Sprintf("%s-%d", version, s.started)}
	w.cmd = exec.Command(program, "-url", s.url, "-dir", s.dir, "-name", w.name)
	w.cmd.Dir = s.dir
	said := &strings.Builder{}
	w.cmd.Stdout, w.cmd.Stderr = said, said
	var err error
	w.in, err = w.cmd.StdinPipe()
	require.NoError(s.t, err)
	w.process, err = servers.StartProcess(w.cmd)
	require.NoError(s.t, err)
	s.t.Cleanup(func() {
		if w.process.Kill(); s.t.Failed() {
			s.t.Logf("%s said: %s", w.name, said)
		}
	})
	s.workers = append(s.workers, w)
	return w
}

// await waits until the history is so.
func (s *scene) await(what string, is func(history) bool) {
	s.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		h := readHistory(s.t, s.dir)
		if is(h) {
			return
		}
		for _, w := range s.workers {
			require.True(s.t, w.process.Alive(), w.name)
		}
		require.True(s.t, time.Now().Before(deadline), "%s: %v", what, h[max(0, len(h)-40):])
	}
}

// settle waits until each worker has had two more turns in each line than now.
func (s *scene) settle() {
	s.t.Helper()
	before := readHistory(s.t, s.dir)
	s.await("turns for all", func(h history) bool {
		return !slices.ContainsFunc(s.workers, func(w *worker) bool { return h.turns(w.name) < before.turns(w.name)+2 })
	})
}

// replace ends the worker that has been there for the longest, and puts another in its place.
func (s *scene) replace(program string, version string, kill bool) {
	s.t.Helper()
	w := s.workers[0]
	s.workers = s.workers[1:]
	if kill {
		w.process.Kill()
	} else {
		w.drain(s.t)
	}
	s.add(program, version)
	s.settle()
}

func (w *worker) drain(t *testing.T) {
	t.Helper()
	w.in.Close()
	select {
	case <-w.process.Exited():
		assert.True(t, w.cmd.ProcessState.Success(), w.name)
	case <-time.After(2 * time.Minute):
		require.Fail(t, "it does not end", w.name)
	}
}

func (w *worker) tell(t *testing.T, command string) {
	_, err := fmt.Fprintln(w.in, command)
	require.NoError(t, err)
}

// meet has those of both versions see each other's leaders, come to the barrier together, run each other's job, and stand in one line.
func (s *scene) meet() {
	s.t.Helper()
	s.await("leaders of the other version", func(h history) bool {
		return !slices.ContainsFunc(s.workers, func(w *worker) bool { return !h.sees(w.name) })
	})
	before := readHistory(s.t, s.dir)
	s.await("rounds and slots", func(h history) bool {
		rounds, slots := map[bool]int{}, map[bool]int{}
		for _, e := range h[len(before):] {
			switch e.what {
			case "round":
				rounds[old(e.who)]++
			case "slot":
				slots[old(e.who)]++
			}
		}
		return min(rounds[true], rounds[false], slots[true], slots[false]) > 0
	})
	for _, holder := range s.workers[1:3] {
		s.queue(holder)
	}
}

// queue has all stand behind a holder, twice each, in an order that is known. He is asked to let go by the first.
func (s *scene) queue(holder *worker) {
	s.t.Helper()
	const turns = 8
	before := readHistory(s.t, s.dir)
	holder.tell(s.t, "hold")
	s.await("a holder", func(h history) bool { return h.count("holds", holder.name) > before.count("holds", holder.name) })
	for i := range turns {
		s.workers[i%len(s.workers)].tell(s.t, fmt.Sprintf("stand %d", i))
		require.EventuallyWithT(s.t, func(c *assert.CollectT) {
			line, err := s.client.Line(s.ctx, "mixed/order")
			require.NoError(c, err)
			assert.Len(c, line, i+2)
		}, 2*time.Minute, 20*time.Millisecond)
	}
	s.await("who asks", func(h history) bool { return h.count("wanted", holder.name) > before.count("wanted", holder.name) })
	holder.tell(s.t, "release")
	var served []string
	s.await("turns in order", func(h history) bool {
		served = nil
		for _, e := range h[len(before):] {
			if e.what == "order" {
				served = append(served, e.args[0])
			}
		}
		return len(served) == turns
	})
	assert.Equal(s.t, []string{"0", "1", "2", "3", "4", "5", "6", "7"}, served, "behind %s", holder.name)
}

// awaitEmpty waits until nobody stands in any line. What a dead process has left is taken away by those who have sessions.
func (s *scene) awaitEmpty() {
	s.t.Helper()
	h, err := mutex.New(s.client, "mixed/last").Lock(s.ctx)
	require.NoError(s.t, err)
	require.NoError(s.t, h.Release())
	var left []coord.Node
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		names, err := s.client.Lines(s.ctx, "")
		require.NoError(s.t, err)
		if len(names) == 0 {
			return
		}
		left = nil
		for _, name := range names {
			line, err := s.client.Line(s.ctx, name)
			require.NoError(s.t, err)
			left = append(left, line...)
		}
	}
	require.Empty(s.t, left, "left behind")
}

// close ends all workers, and judges.
func (s *scene) close() {
	for _, w := range s.workers {
		w.in.Close()
	}
	for _, w := range s.workers {
		w.drain(s.t)
	}
	s.awaitEmpty()
	h := readHistory(s.t, s.dir)
	h.judge(s.t)
	for _, e := range h {
		if e.what == "trouble" { // as there is where the machine is busy
			s.t.Log(e)
		}
	}
	traces, err := filepath.Glob(filepath.Join(s.dir, "*.jsonl"))
	require.NoError(s.t, err)
	audit := trace.NewAudit(trace.DefaultSkew)
	for _, path := range traces {
		f, err := os.Open(path)
		require.NoError(s.t, err)
		require.NoError(s.t, audit.Read(path, f))
		f.Close()
	}
	verdict := audit.Verdict()
	assert.Empty(s.t, verdict.Wrong)
	assert.Equal(s.t, s.started, verdict.Processes)
	s.t.Log(verdict)
}
