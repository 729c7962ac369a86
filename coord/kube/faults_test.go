package kube

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// balancer is an address that leads to one API server after the other, as that of a Service does.
type balancer struct {
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	to    []string // none: nobody is let through
	next  int
	conns map[net.Conn]bool
}

func balance(t testing.TB, to ...string) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: l, to: to, conns: map[net.Conn]bool{}}
	b.running.Go(b.run)
	t.Cleanup(func() {
		l.Close()
		b.lead()
		b.running.Wait()
	})
	return b
}

func (b *balancer) url() string { return "https://" + b.listener.Addr().String() }

// lead leads to these from now on, and cuts all connections.
func (b *balancer) lead(to ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to = to
	for c := range b.conns {
		c.Close()
	}
}

func (b *balancer) run() {
	for {
		in, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		var address string
		if len(b.to) > 0 {
			b.next++
			address = b.to[b.next%len(b.to)]
		}
		b.mu.Unlock()
		out, err := net.Dial("tcp", address)
		if address == "" || err != nil {
			in.Close()
			continue
		}
		b.mu.Lock()
		b.conns[in], b.conns[out] = true, true
		b.mu.Unlock()
		for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
			b.running.Go(func() {
				io.Copy(way[0], way[1])
				in.Close()
				out.Close()
				b.mu.Lock()
				delete(b.conns, way[0])
				b.mu.Unlock()
			})
		}
	}
}

// behind are the options of who is led there by a balancer.
func behind(t testing.TB, b *balancer, c *servers.Cluster) []Option {
	return append(as(t, c, 0, servers.KubeAdmin), WithServer(b.url()))
}

// With two API servers on one etcd, whatever becomes of one of them, nothing is lost or done twice.
func TestTwoAPIServersCountRightWhileOneIsDisturbed(t *testing.T) {
	c := servers.Kube(t, servers.Members(2))
	b := balance(t, c.Addrs()...)
	var stores []register.Store
	for range 4 {
		stores = append(stores, opened(t, behind(t, b, c)...))
	}
	put(t, stores[0], register.Item{Key: "n"}, "0")
	n := 0
	storecheck.Count(t, func() {
		m := c.Member(n % 2)
		switch n++; n {
		case 1, 2:
			m.Kill()
			time.Sleep(500 * time.Millisecond)
			m.Restart(t)
		case 3, 4:
			m.Freeze()
			time.Sleep(4 * time.Second)
			m.Thaw()
		default:
			b.lead(c.Addrs()...)
		}
	}, stores...)
}

// A holder with the usual TTL keeps its lock while one of two API servers goes, and the next one gets it at once.
func TestAHoldOutlastsAnAPIServer(t *testing.T) {
	c := servers.Kube(t, servers.Members(2))
	for name, disturb := range map[string]func(m *servers.Member) (mend func()){
		"killed": func(m *servers.Member) func() { m.Kill(); return func() { m.Restart(t) } },
		"frozen": func(m *servers.Member) func() { m.Freeze(); return m.Thaw },
	} {
		t.Run(name, func(t *testing.T) {
			b := balance(t, c.Addrs()...)
			first, second := connected(t, behind(t, b, c)), connected(t, behind(t, b, c))
			held, err := mutex.New(first, name).Lock(within(t, 60*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			next := make(chan error, 1)
			go func() {
				h, err := mutex.New(second, name).Lock(within(t, 2*time.Minute))
				if err == nil {
					err = h.Release()
				}
				next <- err
			}()
			time.Sleep(time.Second)
			mend := disturb(c.Member(0))
			time.Sleep(25 * time.Second)
			select {
			case err := <-next:
				t.Errorf("the next one was let in: %v", err)
			default:
			}
			if err := held.Err(); err != nil {
				t.Errorf("the hold has ended: %v", err)
			}
			mend()
			if err := held.Release(); err != nil {
				t.Error(err)
			}
			if err := <-next; err != nil {
				t.Error(err)
			}
		})
	}
}

// What a watch has missed is compacted, and the API server that it comes back to was started since.
func TestACompactedWatchIsToldThatNotesMayBeLost(t *testing.T) {
	etcdctl := servers.Need(t, "etcdctl")
	c := servers.Kube(t, servers.Members(2))
	b := balance(t, c.Addrs()[0])
	deaf, other := opened(t, behind(t, b, c)...), opened(t, as(t, c, 1, servers.KubeAdmin)...)
	h := listens(t, deaf, "t")
	it := tell(t, other, register.Item{Key: "k"}, "t", "one")
	storecheck.Eventually(t, "it is heard", func() bool { return h.has("one") })

	b.lead() // nowhere
	for i := range 20 {
		it = tell(t, other, it, "t", fmt.Sprint("missed ", i))
	}
	known, err := other.known.Current()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(etcdctl, "--endpoints", c.Below().Addrs()[0], "compact", strconv.FormatInt(known.revision.Load(), 10)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c.Member(0).Restart(t)
	b.lead(c.Addrs()[0])
	storecheck.Eventually(t, "it is told that something may be lost, or hears all", func() bool { return h.has("nil") || h.has("missed 19") })
	h.mu.Lock()
	lost, all := slices.Contains(h.all, "nil"), strings.Join(h.all, ",")
	h.mu.Unlock()
	if !lost && strings.Count(all, "missed") < 20 {
		t.Errorf("heard %s", all)
	}
	t.Logf("told that it may be lost: %v", lost)
	storecheck.Eventually(t, "later notes are heard", func() bool {
		it = tell(t, other, it, "t", "later")
		return h.has("later")
	})
}

// Rights that are taken away for a while end holds in time, and let nobody in beside them.
func TestRightsThatAreTakenAwayForAWhile(t *testing.T) {
	c := servers.Kube(t, servers.Shared())
	allow(t, c, "one", allVerbs...)
	opts := append(as(t, c, 0, servers.KubeToken("one")), WithRoot(freshRoot()), WithTTL(2*time.Second), WithLongestTTL(2*time.Second), WithLogger(logger(t)))
	first, second := connected(t, opts), connected(t, opts)
	held, err := mutex.New(first, "a").Lock(within(t, 60*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	allow(t, c, "one", "get")
	select {
	case <-held.Context().Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the hold goes on without the right to renew it")
	}
	_ = held.Release() // it cannot leave the line either, and goes on trying
	_, err = mutex.New(second, "a").Lock(within(t, 30*time.Second))
	if !errors.Is(err, coord.ErrDenied) {
		t.Errorf("lock: %v", err)
	}
	allow(t, c, "one", allVerbs...)
	storecheck.Eventually(t, "it can be locked again", func() bool {
		h, err := mutex.New(second, "a").Lock(within(t, 10*time.Second))
		if err != nil {
			t.Log(err)
		}
		return err == nil && h.Release() == nil
	})
}

// A backup of etcd is put back: whoever has seen something newer notices, and nobody is granted anything until all TTLs have
// passed.
func TestABackupThatIsPutBackIsNoticed(t *testing.T) {
	c := servers.Kube(t)
	opts := append(as(t, c, 0, servers.KubeAdmin), WithLongestTTL(2*time.Second))
	first, other := opened(t, opts...), opened(t, opts...)
	stays := put(t, first, register.Item{Key: "stays"}, "old")
	etcd, api := c.Below().Member(0), c.Member(0)
	etcd.KeepDisk(t)
	api.Restart(t)
	before, err := first.Memory(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for range 500 { // more than the API server itself writes when it starts, which would make up for them
		stays = put(t, first, stays, "new")
	}
	read(t, other, "stays")

	api.Kill()
	etcd.PutBackDisk(t)
	api.Restart(t)
	begun := time.Now()
	storecheck.Eventually(t, "a write shows it", func() bool {
		_, err := first.Swap(within(t, 5*time.Second), register.Swap{Key: "k", Next: register.NewVersion(), Value: []byte("x")})
		return errors.Is(err, register.ErrForgot)
	})
	storecheck.Eventually(t, "a look shows it", func() bool {
		_, err := other.Read(within(t, 5*time.Second), "stays")
		return errors.Is(err, register.ErrForgot)
	})
	for _, s := range []*Store{first, other, opened(t, opts...)} {
		mem, err := s.Memory(within(t, 10*time.Second))
		if err != nil || mem.ID == before.ID || mem.For > time.Since(begun) {
			t.Errorf("the memory is %+v, %v, and was %+v", mem, err, before)
		}
	}
	if got := read(t, first, "stays"); got.Version == stays.Version {
		t.Error("nothing was put back, so this shows nothing")
	}
}
