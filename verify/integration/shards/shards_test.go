package shards

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
	"github.com/turnwise/turnwise/recipes/shards"
	"github.com/turnwise/turnwise/verify/servers"
)

const (
	ttl   = 4 * time.Second
	count = 128                   // so many that each of eight members has some
	often = 50 * time.Millisecond // each shard's owner writes that often
)

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "own shards" {
		if err := own(os.Args[2], os.Args[3]); err != nil {
			fmt.Println(os.Args[3], "error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(servers.Main(m))
}

// own is a member, until it is told to end. Each line that it writes is a write under a shard's token.
func own(url, member string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	lost := coord.WithObserver(&coord.Observer{Lost: func(_ time.Time, me coord.Node, why error) {
		fmt.Println(member, "lost", me.Line, why)
	}})
	defer func() {
		if ctx.Err() != nil { // it may have been told to end before the service had answered
			err = nil
		}
	}()
	c, err := backend.Open(ctx, url, backend.WithTTL(ttl), backend.WithClient(lost))
	if err != nil {
		return err
	}
	defer c.Close()
	return shards.New(c, "parts", count).Run(ctx, func(ctx context.Context, shard int, h *coord.Hold) error {
		for ctx.Err() == nil {
			fmt.Println(member, "write", shard, h.Token())
			select {
			case <-time.After(often):
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	})
}

// write is the last one in a shard that was taken.
type write struct {
	member int
	at     time.Time
}

// register is what all write to, through one pipe: so it sees the writes in the order in which they were made.
type register struct {
	in *os.File

	mu      sync.Mutex
	fence   fence.Local
	last    map[int]write   // by shard
	gaps    []time.Duration // between the last write of an owner and the first of the next, since begin
	moved   time.Time       // when a shard moved last
	refused map[int]int     // by member
	lost    []string        // what members say of sessions that they have lost
}

// serve takes what members write.
func (r *register) serve(t *testing.T, from *os.File) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		var member, shard int
		var what string
		var token coord.Token
		_, _ = fmt.Sscan(lines.Text(), &member, &what, &shard, &token)
		r.mu.Lock()
		switch what {
		case "write":
			r.wrote(member, shard, token)
		case "lost":
			r.lost = append(r.lost, lines.Text())
		default:
			t.Errorf("a member says %q", lines.Text())
		}
		r.mu.Unlock()
	}
}

func (r *register) wrote(member, shard int, token coord.Token) {
	now := time.Now()
	if r.fence.Pass(context.Background(), fmt.Sprint(shard), fence.Stamp{Token: token}) != nil {
		r.refused[member]++
		return
	}
	if before, known := r.last[shard]; !known || before.member != member {
		r.moved = now
		if known {
			r.gaps = append(r.gaps, now.Sub(before.at))
		}
	}
	r.last[shard] = write{member, now}
}

// owners are whose each shard is, if each is somebody's and none has moved for a while.
func (r *register) owners() (owners map[int]int, settled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	owners = make(map[int]int)
	for shard, w := range r.last {
		if time.Since(w.at) > 20*often {
			return nil, false
		}
		owners[shard] = w.member
	}
	return owners, len(owners) == count && time.Since(r.moved) > time.Second
}

// crowd is who is there.
type crowd struct {
	*testing.T
	service, url string
	register     *register
	members      map[int]*servers.Process
	hired        int
}

// comes starts a member.
func (c *crowd) comes() int {
	c.hired++
	cmd := exec.Command(os.Args[0], "own shards", c.url, strconv.Itoa(c.hired))
	cmd.Stderr = os.Stderr
	cmd.Stdout = c.register.in
	p, err := servers.StartProcess(cmd)
	require.NoError(c, err)
	c.members[c.hired] = p
	return c.hired
}

// goes ends a member, as end does.
func (c *crowd) goes(member int, end func(*servers.Process)) {
	p := c.members[member]
	delete(c.members, member)
	end(p)
	<-p.Exited()
}

// settles waits until those that are there own all shards.
func (c *crowd) settles() map[int]int {
	c.Helper()
	for limit := time.Now().Add(3 * time.Minute); time.Now().Before(limit); time.Sleep(often) {
		owners, settled := c.register.owners()
		own := make(map[int]bool)
		for _, m := range owners {
			own[m] = true
		}
		if settled && maps.Equal(own, c.there()) {
			return owners
		}
	}
	c.Fatal("the shards never come to rest")
	return nil
}

// there are the members whose processes run.
func (c *crowd) there() map[int]bool {
	there := make(map[int]bool)
	for m, p := range c.members {
		if !p.Frozen() {
			there[m] = true
		}
	}
	return there
}

// changes has something happen, waits until the shards have come to rest, and reports what it has cost. Only shards that were the
// members' or become theirs may move.
func (c *crowd) changes(what string, do func() (members []int)) {
	c.Helper()
	before := c.settles()
	c.register.mu.Lock()
	c.register.gaps, c.register.lost = nil, nil
	c.register.mu.Unlock()
	members := do()
	after := c.settles()
	c.register.mu.Lock()
	defer c.register.mu.Unlock()
	moved := 0
	for shard, m := range before {
		if after[shard] == m {
			continue
		}
		moved++
		if c.register.lost == nil { // or else it had to
			assert.True(c, slices.Contains(members, m) || slices.Contains(members, after[shard]), "%s: shard %d moved from %d to %d, and %v have changed", what, shard, m, after[shard], members)
		}
	}
	if c.register.lost != nil {
		c.Log(what, c.register.lost)
	}
	slices.Sort(c.register.gaps)
	if gaps := c.register.gaps; len(gaps) > 0 {
		c.Logf("| %s | %s | %d | %d ms | %d ms |", c.service, what, moved, gaps[len(gaps)/2].Milliseconds(), gaps[len(gaps)-1].Milliseconds())
	}
}

func TestShardsMoveAsMembersComeAndGo(t *testing.T) {
	services := map[string]func(t *testing.T) string{
		"files":     func(t *testing.T) string { return "file://" + t.TempDir() },
		"etcd":      func(t *testing.T) string { return "etcd://" + servers.Etcd(t).Addrs()[0] },
		"ZooKeeper": func(t *testing.T) string { return "zk://" + servers.ZooKeeper(t).Addrs()[0] },
		"Redis": func(t *testing.T) string {
			return fmt.Sprintf("redis://%s?longest-session=%v", servers.Redis(t, servers.AppendOnly("always")).Addrs()[0], ttl)
		},
	}
	for service, url := range services {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			out, in, err := os.Pipe()
			require.NoError(t, err)
			r := &register{in: in, last: make(map[int]write), refused: make(map[int]int)}
			var serving sync.WaitGroup
			serving.Go(func() { r.serve(t, out) })
			c := &crowd{T: t, service: service, url: url(t), register: r, members: make(map[int]*servers.Process)}
			defer func() {
				for m := range c.members {
					c.goes(m, (*servers.Process).Kill)
				}
				_ = in.Close()
				serving.Wait()
				_ = out.Close()
			}()
			for range 7 {
				c.comes()
			}
			stopped := c.goThrough()
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.refused, stopped)
			assert.Empty(t, r.refused, "writes of who was never stopped, after the next owner's")
		})
	}
}

// goThrough has members come and go, and returns who was stopped.
func (c *crowd) goThrough() (stopped int) {
	c.changes("an eighth comes", func() []int { return []int{c.comes()} })
	c.changes("one leaves", func() []int {
		c.goes(1, (*servers.Process).Terminate)
		return []int{1}
	})
	c.changes("one is killed", func() []int {
		c.goes(2, (*servers.Process).Kill)
		return []int{2}
	})
	stopped = 3
	if c.service != "files" { // where it holds for as long as it lives
		c.changes("one is stopped", func() []int {
			c.members[stopped].Freeze()
			return []int{stopped}
		})
		c.changes("it goes on", func() []int {
			c.members[stopped].Thaw()
			return []int{stopped}
		})
	}
	c.changes("two flap", func() (flap []int) {
		flap = []int{4, 5}
		c.goes(4, (*servers.Process).Terminate)
		c.goes(5, (*servers.Process).Terminate)
		for range 4 {
			for range 2 {
				m := c.comes()
				time.Sleep(10 * often)
				c.goes(m, (*servers.Process).Terminate)
				flap = append(flap, m)
			}
		}
		return append(flap, c.comes(), c.comes())
	})
	return stopped
}
