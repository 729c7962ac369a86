package slots

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/mortal"
	"github.com/turnwise/turnwise/recipes/once"
	"github.com/turnwise/turnwise/verify/servers"
)

var deaths = flag.Int("slots.deaths", 8, "how many processes are killed at random, in each line")

const ttl = 2 * time.Second // the least that etcd grants

func TestMain(m *testing.M) {
	if len(os.Args) == 7 && os.Args[1] == "run slots" {
		p := process{url: os.Args[2], line: os.Args[3], log: os.Args[4], moment: os.Args[6]}
		p.policy = policies[os.Args[5]]
		if err := p.run(); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(servers.Main(m))
}

// services are told by their URLs. Where only the kernel reports a death, the process really has to be killed.
var services = []struct {
	name string
	url  func(t *testing.T) string
}{
	{"file", func(t *testing.T) string { return "file://" + t.TempDir() }},
	{"etcd", func(t *testing.T) string { return "etcd://" + servers.Etcd(t).Addrs()[0] }},
	{"Redis", func(t *testing.T) string {
		return fmt.Sprintf("redis://%s?longest-session=%v", servers.Redis(t, servers.AppendOnly("always")).Addrs()[0], ttl)
	}},
}

// process runs slots until it is killed.
type process struct {
	url, line, log string
	policy         once.Policy
	moment         string // at which it stops to be killed, "before look 1" or "after note 2"; "" for none
}

func (p process) command() *exec.Cmd {
	policy := "at most once"
	if p.policy == once.AtLeastOnce {
		policy = "at least once"
	}
	cmd := exec.Command(os.Args[0], "run slots", p.url, p.line, p.log, policy, p.moment)
	cmd.Stderr = os.Stderr
	return cmd
}

func connect(ctx context.Context, url string) (*coord.Client, error) {
	return backend.Open(ctx, url, backend.WithTTL(ttl))
}

// run says "ready", and then each slot that is settled.
func (p process) run() error {
	ctx := context.Background()
	c, err := connect(ctx, p.url)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	slot := int64(2)
	for p.moment == "" {
		last, err := once.New(c, p.line, p.policy).Last(ctx)
		if slot = max(last.Slot, 1); err == nil {
			break
		} else if coord.IsLasting(err) {
			return err
		}
	}
	m := &mortal.Moments{Driver: c.Driver(), Asked: p.stop}
	for job := once.New(coord.NewClient(m), p.line, p.policy); ; {
		ran, err := job.Do(ctx, slot, func(_ context.Context, h *coord.Hold) error {
			return m.Ask("job", func() error { return p.note(slot, h) })
		})
		switch {
		case coord.IsLasting(err):
			return err
		case err == nil:
			fmt.Println("slot", slot, ran)
			slot++
		}
	}
}

// stop stops the process for good when the moment has come, and says so.
func (p process) stop(moment string, do func() error) error {
	when, at, _ := strings.Cut(p.moment, " ")
	if at == moment && when == "before" {
		p.wait()
	}
	err := do()
	if at == moment {
		p.wait()
	}
	return err
}

func (p process) wait() {
	fmt.Println("here")
	select {}
}

// note adds a line to the log, in one write.
func (p process) note(slot int64, h *coord.Hold) error {
	f, err := os.OpenFile(p.log, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintln(f, slot, h.Token())
	return err
}

// run is one time that a slot was run.
type run struct{ slot, token int64 }

func (p process) runs(t *testing.T) (all []run) {
	t.Helper()
	text, err := os.ReadFile(p.log)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(text)) {
		var r run
		_, err := fmt.Sscan(l, &r.slot, &r.token)
		require.NoError(t, err, "%q", l)
		all = append(all, r)
	}
	return all
}

// check is for the slots up to one that is known to be settled.
func (p process) check(t *testing.T, settled int64) {
	t.Helper()
	times := make(map[int64]int)
	last := run{}
	for _, r := range p.runs(t) {
		times[r.slot]++
		assert.Greater(t, r.token, last.token, "slot %d was run with this token after slot %d", r.slot, last.slot)
		assert.GreaterOrEqual(t, r.slot, last.slot, "an earlier slot was run after a later one")
		last = r
	}
	for slot := int64(1); slot <= settled; slot++ {
		if p.policy == once.AtMostOnce {
			assert.LessOrEqual(t, times[slot], 1, "slot %d", slot)
		} else {
			assert.GreaterOrEqual(t, times[slot], 1, "slot %d", slot)
		}
	}
}

var policies = map[string]once.Policy{"at most once": once.AtMostOnce, "at least once": once.AtLeastOnce}

func TestAProcessIsKilledAtEveryMoment(t *testing.T) {
	for _, s := range services {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			url := s.url(t)
			some := make(chan struct{}, 4)
			var all sync.WaitGroup
			defer all.Wait()
			for name, policy := range policies {
				moments := mortal.MomentsOfSlot(policy)
				for i, moment := range moments {
					for _, when := range []string{"before ", "after "} {
						all.Go(func() {
							some <- struct{}{}
							defer func() { <-some }()
							t.Run(name+"/"+when+moment, func(t *testing.T) {
								p := process{url, fmt.Sprint(name, i, when), filepath.Join(t.TempDir(), "log"), policy, when + moment}
								p.killedThere(t, slices.Contains(moments[:i], "note 1") || when+moment == "after note 1")
							})
						})
					}
				}
			}
		})
	}
}

// killedThere has slot 1 run by this process, so that there is somebody to wait for, and slot 2 by one that is killed.
func (p process) killedThere(t *testing.T, settled bool) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := connect(ctx, p.url)
	require.NoError(t, err)
	defer c.Close()
	ours := once.New(c, p.line, p.policy)
	began, here, over := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := ours.Do(ctx, 1, func(_ context.Context, h *coord.Hold) error {
			close(began)
			p.waits(ctx, c, here)
			return p.note(1, h)
		})
		over <- err
	}()
	<-began
	cmd := p.command()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said := bufio.NewScanner(out)
	for said.Scan() && said.Text() != "here" {
		if said.Text() != "ready" {
			t.Errorf("it says %q", said.Text())
			break
		}
	}
	close(here)
	require.NoError(t, cmd.Process.Kill())
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
	require.NoError(t, <-over)

	before := len(p.runs(t))
	for _, slot := range []struct {
		n    int64
		runs bool
	}{{2, !settled}, {3, true}} {
		ran, err := ours.Do(ctx, slot.n, func(_ context.Context, h *coord.Hold) error { return p.note(slot.n, h) })
		require.NoError(t, err)
		assert.Equal(t, slot.runs, ran, "slot %d; slot 2 was run %d times before", slot.n, before-1)
	}
	p.check(t, 3)
}

// waits waits until another one stands behind, or has stopped before.
func (p process) waits(ctx context.Context, c *coord.Client, here <-chan struct{}) {
	for ctx.Err() == nil {
		if nodes, err := c.Line(ctx, p.line); err == nil && len(nodes) > 1 {
			return
		}
		select {
		case <-here:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestProcessesAreKilledAtRandom(t *testing.T) {
	for _, s := range services {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			url := s.url(t)
			for name, policy := range policies {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					p := process{url, "random " + name, filepath.Join(t.TempDir(), "log"), policy, ""}
					var all sync.WaitGroup
					for range 2 { // at a time
						lives := mortal.Lives{Make: p.command, Most: 30, Said: func(l string) {
							if strings.HasPrefix(l, "error") {
								t.Error(l)
							}
						}}
						all.Go(func() {
							for range (*deaths + 1) / 2 {
								if err := lives.Next(); err != nil {
									t.Error(err)
									return
								}
							}
						})
					}
					all.Wait()
					p.atLast(t)
				})
			}
		})
	}
}

// atLast runs one more slot, and checks them all.
func (p process) atLast(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := connect(ctx, p.url)
	require.NoError(t, err)
	defer c.Close()
	job := once.New(c, p.line, p.policy)
	last, err := job.Last(ctx)
	require.NoError(t, err)
	settled := last.Slot
	if !last.Done && p.policy == once.AtLeastOnce {
		settled--
	}
	ran, err := job.Do(ctx, last.Slot+1, func(_ context.Context, h *coord.Hold) error { return p.note(last.Slot+1, h) })
	require.NoError(t, err)
	assert.True(t, ran)
	p.check(t, settled)
	t.Logf("%d deaths, %d slots, %d runs", *deaths, last.Slot, len(p.runs(t)))
}
