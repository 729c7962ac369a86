package regressions

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/integration/service"
	"github.com/turnwise/turnwise/verify/servers"
)

const (
	ttl   = 2 * time.Second
	line  = "line"
	slack = 400 * time.Millisecond // what a busy machine may add to the 100 ms that a call may take after its context
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// stage has a server, a client whose network can be made bad, and one whose network is good.
type stage struct {
	testing.TB
	ctx     context.Context
	service service.Service
	cluster *servers.Cluster
	link    *faultproxy.Proxy
	victim  *coord.Client
	other   *coord.Client
}

// report is a scenario and who reported it.
type report struct {
	issues string
	what   string
	play   func(s *stage)
}

func TestReports(t *testing.T) {
	for _, r := range reports {
		for _, svc := range service.Both {
			t.Run(r.issues+": "+r.what+"/"+svc.Name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				cluster := svc.Start(t, servers.JavaOptions("-Dznode.container.checkIntervalMs=60000")) // empty lines stay
				link := faultproxy.Start(t, cluster.Addrs()[0])
				s := &stage{
					TB: t, ctx: ctx, service: svc, cluster: cluster, link: link,
					victim: svc.Client(t, []string{link.Addr()}, ttl), other: svc.Client(t, cluster.Addrs(), ttl),
				}
				defer link.Heal()
				s.must(mutex.New(s.victim, line).Lock(ctx)).Release() // so that there are a session and a directory
				r.play(s)
			})
		}
	}
}

// taking calls take in the background.
func taking(take func() (*coord.Hold, error)) <-chan coord.Result {
	got := make(chan coord.Result, 1)
	go func() {
		h, err := take()
		got <- coord.Result{Hold: h, Err: err}
	}()
	return got
}

func (s *stage) campaign(c *coord.Client) (*coord.Hold, error) {
	t, err := election.New(c, line).Campaign(s.ctx, []byte("me"))
	if err != nil {
		return nil, err
	}
	return t.Hold, nil
}

func (s *stage) must(h *coord.Hold, err error) *coord.Hold {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
	return h
}

func (s *stage) granted(got <-chan coord.Result) *coord.Hold {
	s.Helper()
	select {
	case r := <-got:
		return s.must(r.Hold, r.Err)
	case <-time.After(20 * time.Second):
		s.Fatal("it never has its turn")
		return nil
	}
}

func (s *stage) waits(got <-chan coord.Result) {
	s.Helper()
	select {
	case r := <-got:
		s.Fatalf("it does not wait: %v, %v", r.Hold, r.Err)
	case <-time.After(100 * time.Millisecond):
	}
}

// stand waits until the service has that many nodes in the line.
func (s *stage) stand(want int) []coord.Node {
	s.Helper()
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		nodes, err := s.other.Line(s.ctx, line)
		if err == nil && len(nodes) == want {
			return nodes
		}
		if time.Now().After(limit) {
			s.Fatalf("%d nodes stand, want %d (%v)", len(nodes), want, err)
		}
	}
}

// loseReplies lets the victim's requests arrive and holds back all answers, until the connection is cut.
func (s *stage) loseReplies() (cut func()) {
	s.link.Stall(faultproxy.ToClient)
	return func() {
		s.link.Cut()
		s.link.Heal()
	}
}

// endSession lets the victim hear nothing until the service has removed its nodes, and that many nodes of others are
// left.
func (s *stage) endSession(others int) {
	s.link.Stall()
	s.link.Freeze()
	s.stand(others)
	s.link.Cut()
	s.link.Heal()
}

// loseData makes the server start again with no data.
func (s *stage) loseData() {
	m := s.cluster.Member(0)
	m.Kill()
	data := filepath.Join(m.Dir(), "data")
	if err := os.RemoveAll(data); err != nil {
		s.Fatal(err)
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		s.Fatal(err)
	}
	m.Restart(s)
}
