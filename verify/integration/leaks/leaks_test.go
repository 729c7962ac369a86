package leaks

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/recipes/semaphore"
	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/integration/service"
	"github.com/turnwise/turnwise/verify/servers"
)

var length = flag.Duration("leaks.length", 10*time.Second, "how long locks are used between two looks")

const ttl = 2 * time.Second

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

func TestNothingGrows(t *testing.T) {
	for _, s := range service.Both {
		t.Run(s.Name, func(t *testing.T) {
			cluster := s.Start(t)
			link := faultproxy.Start(t, cluster.Addrs()[0])
			client := s.Client(t, []string{link.Addr()}, ttl)
			direct := s.Client(t, cluster.Addrs(), ttl)

			server := cluster.Member(0)
			first := use(t, client, link, server, *length/4)
			haveATurn(t, client)
			before := look(t, s, cluster, direct)
			rest := use(t, client, link, server, *length)
			haveATurn(t, client)
			after := look(t, s, cluster, direct)
			for limit := time.Now().Add(30 * time.Second); len(after.grown(before)) > 0 && time.Now().Before(limit); {
				after = look(t, s, cluster, direct) // beside a busy machine, what ends takes longer
			}
			t.Logf("%d acquisitions before, %d after", first, rest)
			t.Logf("before: %v", before)
			t.Logf("after:  %v", after)
			if grown := after.grown(before); len(grown) > 0 {
				var all strings.Builder
				_ = pprof.Lookup("goroutine").WriteTo(&all, 1)
				t.Errorf("%s\n%s", strings.Join(grown, "\n"), &all)
			}
		})
	}
}

// grown says what is more than it was before, by more than chance.
func (s sizes) grown(before sizes) (what []string) {
	check := func(name string, is, was, most int64) {
		if is > most {
			what = append(what, fmt.Sprintf("%s grew from %d to %d", name, was, is))
		}
	}
	check("goroutines", int64(s.goroutines), int64(before.goroutines), int64(before.goroutines)+10)
	check("open files", int64(s.files), int64(before.files), int64(before.files)+5)
	check("the heap", int64(s.heap), int64(before.heap), int64(before.heap)*3/2+(4<<20))
	check("watches at the server", s.watches, before.watches, before.watches+10)
	check("nodes at the server", s.nodes, before.nodes, before.nodes+10)
	return what
}

// use locks, looks, cancels, times out, loses sessions and reconnects, while the server is away now and then and comes back with a backup
// once. It returns how often it had a turn.
func use(t *testing.T, c *coord.Client, link *faultproxy.Proxy, server *servers.Member, d time.Duration) int64 {
	server.KeepDisk(t)
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var turns atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for ctx.Err() == nil {
				line := fmt.Sprintf("%d", rand.IntN(8))
				try, cancel := context.WithTimeout(ctx, time.Second)
				switch rand.IntN(4) {
				case 0: // it will give up at any moment
					cancel()
					try, cancel = context.WithTimeout(ctx, rand.N(5*time.Millisecond))
				case 1: // somebody loses interest in a channel
					results := mutex.New(c, "mutex "+line).LockChan(try)
					time.Sleep(rand.N(3 * time.Millisecond))
					cancel()
					if r, ok := <-results; ok && r.Hold != nil {
						r.Hold.Release()
					}
					continue
				}
				var h *coord.Hold
				var err error
				switch i % 4 {
				case 0:
					h, err = mutex.New(c, "mutex "+line).Lock(try)
				case 1:
					h, err = rwlock.New(c, "rwlock "+line).Lock(try)
				case 2:
					h, err = rwlock.New(c, "rwlock "+line).RLock(try)
				case 3:
					h, err = semaphore.New(c, "semaphore "+line, 10).Acquire(try, 1+rand.Int64N(9))
				}
				if err == nil {
					turns.Add(1)
					time.Sleep(rand.N(2 * time.Millisecond))
					h.Release()
				}
				cancel()
			}
		})
	}
	all.Go(func() { useOnce(ctx, c, &turns) })
	all.Go(func() { watchNobody(ctx, c) })
	all.Go(func() {
		half, restored := time.Now().Add(d/2), false
		for ctx.Err() == nil {
			time.Sleep(rand.N(time.Second))
			switch chance := rand.IntN(8); {
			case !restored && time.Now().After(half):
				restored = true
				server.PutBackDisk(t)
			case chance == 0:
				server.Kill()
				time.Sleep(rand.N(ttl))
				server.Restart(t)
			case chance < 3:
				link.Stall()
				time.Sleep(ttl + ttl/2) // the session is lost
				link.Cut()
				link.Heal()
			default:
				link.Cut()
			}
		}
	})
	all.Wait()
	link.Heal()
	return turns.Load()
}

// names is how many lines there are of which nobody should remember anything.
const names = 20_000

// useOnce has a turn in one line after the other.
func useOnce(ctx context.Context, c *coord.Client, turns *atomic.Int64) {
	for n := 0; ctx.Err() == nil; n++ {
		try, cancel := context.WithTimeout(ctx, time.Second)
		if h, err := mutex.New(c, fmt.Sprintf("once %d", n%names)).Lock(try); err == nil {
			turns.Add(1)
			h.Release()
		}
		cancel()
	}
}

// watchNobody watches one line after the other, for a moment each. Nobody stands there.
func watchNobody(ctx context.Context, c *coord.Client) {
	for n := 0; ctx.Err() == nil; n++ {
		look, cancel := context.WithTimeout(ctx, rand.N(10*time.Millisecond))
		for range election.New(c, fmt.Sprintf("nobody %d", n%names)).Observe(look) { // until it has been looked for long enough
		}
		cancel()
	}
}

// haveATurn makes sure that the client has a session: it may have lost the last one and not needed another since.
func haveATurn(t *testing.T, c *coord.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := mutex.New(c, "one turn").Do(ctx, func(context.Context, *coord.Hold) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// sizes are what may grow.
type sizes struct {
	goroutines, files int
	heap              uint64
	watches, nodes    int64
}

func (s sizes) String() string {
	return fmt.Sprintf("%d goroutines, %d open files, %d KiB of heap, %d watches, %d nodes", s.goroutines, s.files, s.heap>>10, s.watches, s.nodes)
}

// look waits until all sessions but the present ones are over, and every line is empty.
func look(t *testing.T, s service.Service, cluster *servers.Cluster, c *coord.Client) sizes {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	service.AwaitEmpty(ctx, t, c)
	time.Sleep(2 * ttl) // so that what is on its way ends, and empty lines are swept
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, _ := os.ReadDir("/proc/self/fd")
	z := sizes{goroutines: runtime.NumGoroutine(), files: len(files), heap: m.HeapAlloc}
	if s.Name == "ZooKeeper" {
		said, err := cluster.Member(0).Mntr(ctx)
		if err != nil {
			t.Fatal(err)
		}
		z.watches, z.nodes = said["zk_watch_count"], said["zk_znode_count"]
		return z
	}
	said, err := cluster.Member(0).Metrics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range said {
		switch {
		case strings.HasPrefix(name, "etcd_debugging_mvcc_watcher_total"):
			z.watches = int64(value)
		case strings.HasPrefix(name, "etcd_debugging_mvcc_keys_total"):
			z.nodes = int64(value)
		}
	}
	return z
}
