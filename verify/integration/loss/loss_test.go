package loss

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/integration/service"
	"github.com/turnwise/turnwise/verify/servers"
)

const ttl = 2 * time.Second // the least that etcd grants

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "hold" {
		holdAndTell(os.Args[2], os.Args[3:])
		return
	}
	os.Exit(servers.Main(m))
}

// play has a holder on a bad network, and a waiter for its lock on a good one.
type play struct {
	*testing.T
	cluster *servers.Cluster
	proxies []*faultproxy.Proxy // the holder's, one before each member that it knows
	only    *servers.Member     // the one that it knows; nil: all
}

// fault is what happens to the holder or the service. It lasts until end is called, which must be longer than a session
// lasts.
type fault struct {
	name    string
	members int
	begin   func(p *play) (end func())

	// only picks the one member that the holder knows; nil: it knows all.
	only func(p *play) *servers.Member

	// early says that the service may take away a session that has not expired.
	early bool
}

var faults = []fault{
	{name: "nothing passes", begin: func(p *play) func() {
		return p.each(func(x *faultproxy.Proxy) { x.Stall(); x.Freeze() })
	}},
	{name: "no request passes", begin: func(p *play) func() {
		return p.each(func(x *faultproxy.Proxy) { x.Stall(faultproxy.ToServer) })
	}},
	{name: "no reply passes", begin: func(p *play) func() {
		return p.each(func(x *faultproxy.Proxy) { x.Stall(faultproxy.ToClient) })
	}},
	{name: "connections are cut and refused", begin: func(p *play) func() {
		return p.each(func(x *faultproxy.Proxy) { x.Refuse(); x.Cut() })
	}},
	{name: "connections are cut, new ones lead nowhere", begin: func(p *play) func() {
		return p.each(func(x *faultproxy.Proxy) { x.Freeze(); x.Cut() })
	}},
	{name: "everything takes half a session", begin: func(p *play) func() {
		return p.each(func(x *faultproxy.Proxy) { x.Delay(ttl / 4) })
	}},
	{name: "the server is frozen", begin: func(p *play) func() {
		p.cluster.Member(0).Freeze()
		return p.cluster.Member(0).Thaw
	}},
	{name: "the server is killed", begin: func(p *play) func() {
		p.cluster.Member(0).Kill()
		return func() { p.cluster.Member(0).Restart(p) }
	}},
	{name: "the leader is killed", members: 3, begin: func(p *play) func() {
		leader := p.cluster.Leader(p)
		leader.Kill()
		return func() { leader.Restart(p) }
	}},
	{name: "the leader is frozen and goes on", members: 3, early: true, begin: func(p *play) func() {
		leader := p.cluster.Leader(p)
		leader.Freeze()
		return leader.Thaw
	}},
	{name: "the quorum is frozen and goes on", members: 3, early: true, begin: func(p *play) func() {
		p.cluster.Member(0).Freeze()
		p.cluster.Member(1).Freeze()
		return func() { p.cluster.Member(0).Thaw(); p.cluster.Member(1).Thaw() }
	}},
	{name: "its server is cut off from the leader", members: 3, only: follower, begin: func(p *play) func() {
		return p.cluster.Isolate(p.only, p.cluster.Leader(p))
	}},
	{name: "its server is cut off from all others", members: 3, only: follower, begin: isolate},
	{name: "its server leads and is cut off from all others", members: 3, only: leader, begin: isolate},
}

func leader(p *play) *servers.Member { return p.cluster.Leader(p) }

func follower(p *play) *servers.Member {
	leads := p.cluster.Leader(p)
	return p.cluster.Member(slices.IndexFunc(p.cluster.Members(), func(m *servers.Member) bool { return m != leads }))
}

func isolate(p *play) func() { return p.cluster.Isolate(p.only) }

// links makes a ZooKeeper server that hears nothing from the others go on for as long as a session lasts, as it does with
// sessions of 10 s and the sample configuration.
var links = []servers.Option{servers.Links(), servers.Tick(ttl / 5), servers.Config("syncLimit=5")}

func (p *play) each(do func(*faultproxy.Proxy)) func() {
	for _, x := range p.proxies {
		do(x)
	}
	return func() {
		for _, x := range p.proxies {
			x.Heal()
		}
	}
}

func TestAHolderStopsBeforeTheNextOneStarts(t *testing.T) {
	for i, s := range slices.Concat(service.Both, service.Stores) {
		for _, f := range faults {
			if i >= len(service.Both) && f.members > 0 {
				continue // a store is one server
			}
			t.Run(s.Name+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				opts := []servers.Option{servers.Members(max(f.members, 1))}
				if f.only != nil {
					opts = append(opts, links...)
				}
				cluster := s.Start(t, opts...)
				stopsFirst(t, s, f, cluster)
			})
		}
	}
}

// The oldest etcd has no safeguard against a leader that goes on after a freeze: it may revoke leases that are alive.
func TestAHolderHearsOfAnEarlyEnd(t *testing.T) {
	for _, f := range faults {
		if !f.early {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			servers.Need(t, "etcd-3.4")
			t.Parallel()
			stopsFirst(t, service.Etcd, f, service.Etcd.Start(t, servers.Members(f.members), servers.OldEtcd()))
		})
	}
}

func stopsFirst(t *testing.T, s service.Service, f fault, cluster *servers.Cluster) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := &play{T: t, cluster: cluster}
	var addrs []string
	known := cluster.Addrs()
	if f.only != nil {
		p.only = f.only(p)
		known = []string{p.only.Addr()}
	}
	for _, a := range known {
		x := faultproxy.Start(t, a)
		p.proxies = append(p.proxies, x)
		addrs = append(addrs, x.Addr())
	}
	first, second := s.Client(t, addrs, ttl), s.Client(t, cluster.Addrs(), ttl)
	hold, err := mutex.New(first, "line").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	granted := make(chan time.Time, 1)
	go func() {
		next, err := mutex.New(second, "line").Lock(ctx)
		if err != nil {
			t.Errorf("the one who waits: %v", err)
			close(granted)
			return
		}
		granted <- time.Now()
		next.Release()
	}()
	time.Sleep(200 * time.Millisecond) // it waits

	end := f.begin(p)
	begun := time.Now()
	healed := make(chan struct{})
	time.AfterFunc(2*ttl, func() {
		defer close(healed)
		end()
	})
	defer func() { <-healed }()
	believed := begun
	for time.Since(begun) < 2*ttl+5*time.Second {
		now := time.Now()
		if hold.Err() != nil {
			break
		}
		believed = now
		time.Sleep(50 * time.Microsecond)
	}
	lost := hold.Err()
	hold.Release() // if it outlived the fault
	at, ok := <-granted
	switch {
	case !ok:
		return
	case lost == nil:
		t.Log("the hold outlived it")
	case believed.Before(at):
		t.Logf("the holder stopped after %v, the next one started %v later (%v)", round(believed.Sub(begun)), round(at.Sub(believed)), lost)
	case f.early && believed.Sub(at) < time.Second:
		t.Logf("the session was taken away early: the holder heard of it %v after the next one had started (%v)", round(believed.Sub(at)), lost)
	default:
		t.Errorf("both believed to hold for %v (%v)", believed.Sub(at), lost)
	}
	if lost == nil && !f.early && f.members == 0 && strings.HasPrefix(f.name, "no") {
		t.Error("nothing was heard for two sessions, and the hold did not end")
	}
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// A process that was paused for longer than its session lasts does not believe in its hold for a single moment after it goes
// on.
func TestAPausedProcessDoesNotBelieveWhenItGoesOn(t *testing.T) {
	for _, s := range slices.Concat(service.Both, service.Stores) {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			cluster := s.Start(t)
			holder := exec.Command(os.Args[0], append([]string{"hold", s.Name}, cluster.Addrs()...)...)
			out, in, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			holder.Stdout, holder.Stderr = in, os.Stderr
			process, err := servers.StartProcess(holder)
			in.Close() // the child has its own
			if err != nil {
				t.Fatal(err)
			}
			defer process.Kill()
			lines := bufio.NewScanner(out)
			if !lines.Scan() || lines.Text() != "holds" {
				t.Fatalf("the holder says %q", lines.Text())
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			process.Freeze()
			next, err := mutex.New(s.Client(t, cluster.Addrs(), ttl), "line").Lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			process.Thaw()
			if !lines.Scan() || lines.Text() != "lost" {
				t.Fatalf("the holder says %q", lines.Text())
			}
			if !lines.Scan() || lines.Text() != "first look after the pause: lost" {
				t.Errorf("it was paused, and then: %s", lines.Text())
			}
			if err := next.Release(); err != nil {
				t.Error(err)
			}
		})
	}
}

// holdAndTell runs in the process that will be paused. A pause shows as a gap between two readings of the clock.
func holdAndTell(name string, addrs []string) {
	ctx := context.Background()
	c, err := service.Named(name).Connect(ctx, addrs, ttl)
	if err != nil {
		fmt.Println(err)
		return
	}
	hold, err := mutex.New(c, "line").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	before := time.Now()
	fmt.Println("holds")
	first, paused := "it was not paused", false
	for {
		time.Sleep(time.Millisecond)
		asked := time.Now()
		err := hold.Err()
		after := time.Now()
		// A pause during the look may have come after the answer was ready: then the next look is the first to count.
		paused = paused || asked.Sub(before) > ttl/2 || after.Sub(asked) > ttl/2 && err != nil
		if paused && err == nil {
			first = "first look after the pause: held"
			break
		}
		if err != nil {
			if paused {
				first = "first look after the pause: lost"
			}
			break
		}
		paused = after.Sub(asked) > ttl/2
		before = after
	}
	fmt.Println("lost")
	fmt.Println(first)
	select {} // until it is killed
}
