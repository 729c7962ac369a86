package clientgo_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/turnwise/turnwise/coord/kube"
	"github.com/turnwise/turnwise/peers/clientgo"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/verify/servers"
)

// access is how the candidates reach the API server.
type access struct{ server, token, ca string }

func reach(t testing.TB, c *servers.Cluster) access {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(servers.KubeAdmin), 0o600); err != nil {
		t.Fatal(err)
	}
	return access{c.Member(0).URL(), token, c.KubeCA()}
}

// lease is client-go's own lock, as a process of that name.
func (a access) lease(t testing.TB, name string) resourcelock.Interface {
	t.Helper()
	c, err := coordinationv1.NewForConfig(&rest.Config{
		Host: a.server, BearerTokenFile: a.token, TLSClientConfig: rest.TLSClientConfig{CAFile: a.ca}, QPS: 50, Burst: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Name: "reports", Namespace: "default"}, Client: c,
		LockConfig: resourcelock.ResourceLockConfig{Identity: name},
	}
}

// lock is ours in its place.
func (a access) lock(t testing.TB, name string) *clientgo.Lock {
	t.Helper()
	c, err := kube.Connect(t.Context(), "default", kube.WithServer(a.server), kube.WithTokenFile(a.token), kube.WithCAFile(a.ca), kube.WithTTL(8*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return clientgo.New(election.New(c, "reports"), name)
}

// On a real API server, with client-go's own electors and its own lock: those of before, those that change over, those of after, and back.
// There is never more than one leader, and never none for long.
func TestProgramsChangeOverOnALeaseOfKubernetes(t *testing.T) {
	a := reach(t, servers.Kube(t))
	l := &leaders{TB: t}
	run := func(name string, lock resourcelock.Interface) (stop func()) {
		return l.run(name, lock, 5, true, func() {})
	}
	oneLeads := func() {
		t.Helper()
		end := time.Now().Add(40 * time.Second)
		for ; l.who() == ""; time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("nobody leads within 40 s")
			}
		}
	}
	kinds := map[string]func(name string) resourcelock.Interface{
		"old":     func(name string) resourcelock.Interface { return a.lease(t, name) },
		"between": func(name string) resourcelock.Interface { return clientgo.Beside(a.lock(t, name), a.lease(t, name)) },
		"new":     func(name string) resourcelock.Interface { return a.lock(t, name) },
	}
	var running []func()
	for i, kind := range []string{"old", "old", "between", "between", "new", "new", "between", "between", "old", "old"} {
		name := fmt.Sprint(kind, " ", i)
		running = append(running, run(name, kinds[kind](name)))
		if i < 2 {
			continue
		}
		oneLeads()
		time.Sleep(2 * time.Second)
		running[0]()
		running = running[1:]
	}
	oneLeads()
	for _, stop := range running {
		stop()
	}
	if len(l.told) < 5 {
		t.Errorf("only %v have led", l.told)
	}
}

// BenchmarkBesideClientGo is where docs/kubernetes.md has its figures from:
//
//	TURNWISE_KUBE=1 go test ./peers/clientgo -run '^$' -bench BesideClientGo -benchtime 1x
func BenchmarkBesideClientGo(b *testing.B) {
	c := servers.Kube(b)
	for _, kind := range []string{"theirs", "ours"} {
		b.Run(kind, func(b *testing.B) { measure(b, c, kind) })
	}
}

func measure(b *testing.B, c *servers.Cluster, kind string) {
	a := reach(b, c)
	program := filepath.Join(b.TempDir(), kind)
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./testdata/"+kind)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	info, err := os.Stat(program)
	if err != nil {
		b.Fatal(err)
	}

	start := func(stops time.Duration) *candidate { return begin(b, program, a, stops) }
	for b.Loop() {
		team := []*candidate{start(0), start(0), start(0)}
		for range 5 {
			report(b, "SIGTERM", handOver(b, &team, syscall.SIGTERM, start, 0))
		}
		for range 3 {
			report(b, "kill", handOver(b, &team, syscall.SIGKILL, start, 0))
		}
		end(team)

		team = []*candidate{start(3 * time.Second), start(3 * time.Second), start(3 * time.Second)}
		for range 3 {
			report(b, "since-stopped", handOver(b, &team, syscall.SIGTERM, start, 3*time.Second))
		}
		end(team)

		alone := requests(b, c, time.Minute)
		team = nil
		for range 10 {
			team = append(team, start(0))
		}
		leader(b, team)
		time.Sleep(20 * time.Second)
		idle := requests(b, c, time.Minute)
		for verb, n := range idle {
			if n -= alone[verb]; n > 0 {
				b.ReportMetric(n, verb+"/min")
			}
		}
		var memory float64
		for _, p := range team {
			memory += p.memory(b)
		}
		b.ReportMetric(memory/float64(len(team)), "MB-each")
		end(team)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(info.Size())/1e6, "program-MB")
}

func report(b *testing.B, what string, took time.Duration) {
	b.Logf("%s: %v", what, took.Round(time.Millisecond))
}

// candidate is a process that stands for election.
type candidate struct {
	*exec.Cmd
	mu             sync.Mutex
	leads, stopped time.Time
	over           chan struct{}
}

func begin(b *testing.B, program string, a access, stops time.Duration) *candidate {
	b.Helper()
	p := &candidate{Cmd: exec.Command(program, "-server", a.server, "-token", a.token, "-ca", a.ca, "-stops", stops.String()), over: make(chan struct{})}
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Start(); err != nil {
		b.Fatal(err)
	}
	go func() {
		defer close(p.over)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			what, at, _ := strings.Cut(lines.Text(), " ")
			ns, _ := strconv.ParseInt(at, 10, 64)
			p.mu.Lock()
			if what == "leads" {
				p.leads = time.Unix(0, ns)
			} else {
				p.stopped = time.Unix(0, ns)
			}
			p.mu.Unlock()
		}
		_ = p.Wait()
	}()
	b.Cleanup(func() { _ = p.Process.Kill(); <-p.over })
	time.Sleep(100 * time.Millisecond) // so that they stand in that order
	return p
}

func (p *candidate) times() (leads, stopped time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leads, p.stopped
}

// memory is what it has of its own, in megabytes.
func (p *candidate) memory(b *testing.B) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	kb, _ := strconv.ParseFloat(regexp.MustCompile(`VmRSS:\s+(\d+)`).FindStringSubmatch(string(status))[1], 64)
	return kb / 1e3
}

// leader waits until one leads.
func leader(b *testing.B, team []*candidate) *candidate {
	b.Helper()
	for range 1200 {
		for _, p := range team {
			if leads, stopped := p.times(); !leads.IsZero() && stopped.IsZero() {
				return p
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	b.Fatal("nobody leads within a minute")
	return nil
}

// handOver ends the leader, and says how long after that the next one leads; or, if its work takes a while to stop, how long after that
// has stopped, which may be before.
func handOver(b *testing.B, team *[]*candidate, s syscall.Signal, start func(time.Duration) *candidate, stops time.Duration) time.Duration {
	b.Helper()
	first := leader(b, *team)
	time.Sleep(3 * time.Second)
	i := slices.Index(*team, first)
	*team = slices.Delete(*team, i, i+1)
	since := time.Now()
	_ = first.Process.Signal(s)
	next := leader(b, *team)
	if stops > 0 {
		<-first.over
		_, since = first.times()
	}
	leads, _ := next.times()
	*team = append(*team, start(stops))
	return leads.Sub(since)
}

func end(team []*candidate) {
	for _, p := range team {
		_ = p.Process.Signal(syscall.SIGTERM)
	}
	for _, p := range team {
		<-p.over
	}
}

// requests counts what the API server is asked about leases, by verb.
func requests(b *testing.B, c *servers.Cluster, d time.Duration) map[string]float64 {
	b.Helper()
	count := func() map[string]float64 {
		text, err := c.Member(0).KubeDo(b.Context(), "GET", "/metrics", "")
		if err != nil {
			b.Fatal(err)
		}
		n := make(map[string]float64)
		for _, m := range regexp.MustCompile(`(?m)^apiserver_request_total\{.*resource="leases".*verb="(\w+)".*\} (\S+)$`).FindAllStringSubmatch(string(text), -1) {
			v, _ := strconv.ParseFloat(m[2], 64)
			n[m[1]] += v
		}
		return n
	}
	before := count()
	time.Sleep(d)
	after := count()
	for verb := range after {
		after[verb] -= before[verb]
	}
	return after
}
