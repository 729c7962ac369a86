package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/recipes/shards"
	"github.com/turnwise/turnwise/verify/servers"
)

// With four of their contenders and four of ours in one line, there are never two inside, and everyone is served.
func TestOneLineWithConcurrencyMutex(t *testing.T) {
	for theirs, ours := range map[string][]Option{
		"shared/line":   nil,
		"/shared/line":  {WithRoot("/")},
		"/shared/line/": {WithRoot("/"), WithTrailingSlash()},
		"shared/line/":  {WithTrailingSlash()},
	} {
		t.Run(theirs, func(t *testing.T) { oneLine(t, theirs, ours) })
	}
}

func oneLine(t *testing.T, theirs string, ours []Option) {
	cluster := servers.Etcd(t, servers.Shared())
	const each, turns = 4, 25
	var inside, served atomic.Int64
	work := func() {
		if inside.Add(1) != 1 {
			t.Error("two are inside")
		}
		time.Sleep(100 * time.Microsecond)
		served.Add(1)
		inside.Add(-1)
	}
	ctx := within(t, 2*time.Minute)
	var all sync.WaitGroup
	for range each {
		client := direct(t, cluster)
		all.Go(func() {
			session, err := concurrency.NewSession(client)
			if err != nil {
				t.Error(err)
				return
			}
			defer session.Close()
			m := concurrency.NewMutex(session, theirs)
			for range turns {
				if err := m.Lock(ctx); err != nil {
					t.Errorf("theirs: %v", err)
					return
				}
				work()
				if err := m.Unlock(ctx); err != nil {
					t.Errorf("theirs: %v", err)
				}
			}
		})
		s := open(t, connectLink(t, cluster.Addrs()...), append(ours[:len(ours):len(ours)], WithNames(Stock))...)
		all.Go(func() {
			for range turns {
				me, ahead, err := s.Join(ctx, entry("shared/line", "lock"))
				if err == nil {
					_, err = turn(ctx, me, ahead)
				}
				if err != nil {
					t.Errorf("ours: %v", err)
					return
				}
				work()
				if err := me.Leave(ctx, true); err != nil {
					t.Errorf("ours: %v", err)
				}
			}
		})
	}
	all.Wait()
	if n := served.Load(); n != 2*each*turns {
		t.Errorf("%d turns, want %d", n, 2*each*turns)
	}
}

// An election shows the same leader and value on both sides, and hands over both ways.
func TestOneSeatWithConcurrencyElection(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	client := direct(t, cluster)
	session, err := concurrency.NewSession(client)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	theirs := concurrency.NewElection(session, "seat")
	ctx := within(t, time.Minute)
	if err := theirs.Campaign(ctx, "them"); err != nil {
		t.Fatal(err)
	}
	s := open(t, connectLink(t, cluster.Addrs()...), WithNames(Stock))
	e := entry("seat", "lead")
	e.Data = []byte("us")
	me, ahead := join(t, s, e)
	if len(ahead) != 1 {
		t.Fatalf("ahead is %v", ahead)
	}
	first, err := drivertest.FirstNode(ctx, s.d, "seat", nil)
	if err != nil || string(first.Data) != "them" || first.Kind != "lock" || first.Owner != (driver.Owner{}) {
		t.Errorf("first is %+v, %v", first, err)
	}
	c := waiter(t, me, ahead)
	if err := theirs.Proclaim(ctx, "still them"); err != nil {
		t.Fatal(err)
	}
	silent(t, c, 50*time.Millisecond, "they proclaim")
	if err := theirs.Resign(ctx); err != nil {
		t.Fatal(err)
	}
	answers(t, c, 5*time.Second, nil, "await")
	leader := func(want string) {
		t.Helper()
		got, err := concurrency.NewElection(session, "seat").Leader(ctx)
		if err != nil || string(got.Kvs[0].Value) != want {
			t.Errorf("they see the leader %v, %v; want %s", got, err, want)
		}
	}
	leader("us")
	if err := me.Amend(ctx, "lead", []byte("still us")); err != nil {
		t.Fatal(err)
	}
	leader("still us")
	campaign := make(chan error, 1)
	go func() { campaign <- theirs.Campaign(ctx, "them again") }()
	time.Sleep(50 * time.Millisecond)
	leave(t, me, true)
	answers(t, campaign, 5*time.Second, nil, "their campaign")
	leader("them again")
	if err := theirs.Resign(ctx); err != nil {
		t.Fatal(err)
	}
}

// Who waits for contenders that do not see him is warned.
func TestAnotherNameForTheLineIsNoticed(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	session, err := concurrency.NewSession(direct(t, cluster))
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	m := concurrency.NewMutex(session, "slashed/")
	ctx := within(t, time.Minute)
	if err := m.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	log := slog.New(slog.NewTextHandler(&said, nil))
	s := open(t, connectLink(t, cluster.Addrs()...), WithNames(Stock), WithLogger(log))
	_, ahead := join(t, s, entry("slashed", "lock"))
	if len(ahead) != 1 || !strings.Contains(said.String(), "ends with a slash") {
		t.Errorf("%v are ahead, and the log says %q", ahead, said.String())
	}
}

// What a leader says about itself is no kind, whatever it looks like. (Nobody saw that leader.)
func TestStockNamesKeepAValueThatLooksLikeAKind(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	s := open(t, connectLink(t, cluster.Addrs()...), WithNames(Stock))
	for kind, value := range map[string]string{"lead": "turnwise kind R\nus", "lock": "turnwise kind W\n", "W": "turnwise kind lead\nturnwise kind R\n"} {
		e := entry("looks like a kind "+kind, kind)
		e.Data = []byte(value)
		me, _ := join(t, s, e)
		check := func() {
			t.Helper()
			first, err := drivertest.FirstNode(within(t, 10*time.Second), s.d, e.Line, nil)
			if err != nil || first.Kind != kind || string(first.Data) != value {
				t.Errorf("a %s that says %q is seen as %+v, %v", kind, value, first, err)
			}
			all, err := s.d.Line(within(t, 10*time.Second), e.Line)
			if err != nil || len(all) != 1 || all[0].Kind != kind || string(all[0].Data) != value {
				t.Errorf("a %s that says %q is seen as %+v, %v", kind, value, all, err)
			}
		}
		check()
		if err := me.Amend(within(t, 10*time.Second), kind, []byte("else")); err != nil {
			t.Fatal(err)
		}
		if err := me.Amend(within(t, 10*time.Second), kind, e.Data); err != nil {
			t.Fatal(err)
		}
		check()
		leave(t, me, true)
	}
}

// Keys of a kind that other tools do not have are our own, so their values have room for another kind.
func TestStockNamesLetAWriterBecomeAReader(t *testing.T) {
	s := open(t, connectLink(t, servers.Etcd(t, servers.Shared()).Addrs()...), WithNames(Stock))
	ctx := within(t, 20*time.Second)
	writer, _ := join(t, s, entry("downgrade", "W"))
	reads := entry("downgrade", "R")
	reads.Sight.Ignore = []string{"R"}
	reader, ahead := join(t, s, reads)
	waiting := make(chan error, 1)
	go func() {
		ahead, err := reader.Await(ctx, ahead)
		if err == nil && len(ahead) > 0 {
			err = fmt.Errorf("%v stand in the way of a reader", ahead)
		}
		waiting <- err
	}()
	silent(t, waiting, 50*time.Millisecond, "a reader behind a writer")
	if err := writer.Amend(ctx, "R", nil); err != nil {
		t.Fatal(err)
	}
	answers(t, waiting, 5*time.Second, nil, "a reader behind a reader")
	leave(t, writer, false)
	leave(t, reader, false)

	lock, _ := join(t, s, entry("downgrade", "lock"))
	if err := lock.Amend(ctx, "R", nil); !errors.Is(err, errStockKind) {
		t.Errorf("a lock, whose key is like those of other tools, becomes a reader: %v", err)
	}
	leave(t, lock, false)
}

// concurrency.Mutex uses one key per session: it goes and comes back as another incarnation, and a waiter for the first
// must not wait for the second.
func TestStockKeyThatComesBackIsAnother(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	session, err := concurrency.NewSession(direct(t, cluster))
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	ctx := within(t, time.Minute)
	m := concurrency.NewMutex(session, "again")
	if err := m.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l, WithNames(Stock))
	me, ahead := join(t, s, entry("again", "lock"))
	for _, waits := range []bool{false, true} {
		var c <-chan error
		if waits {
			c = waiter(t, me, ahead)
			time.Sleep(50 * time.Millisecond)
		}
		heal := l.cut()
		if err := m.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
		relock := make(chan error, 1)
		go func() { relock <- m.Lock(ctx) }()
		time.Sleep(50 * time.Millisecond)
		heal()
		if !waits {
			c = waiter(t, me, ahead)
		}
		answers(t, c, 5*time.Second, nil, "await")
		leave(t, me, true)
		answers(t, relock, 5*time.Second, nil, "their lock")
		me, ahead = join(t, s, entry("again", "lock"))
	}
	leave(t, me, false)
	if err := m.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestEtcdctlLockWaitsForUsAndWeForIt(t *testing.T) {
	etcdctl := servers.Need(t, "etcdctl")
	cluster := servers.Etcd(t, servers.Shared())
	s := open(t, connectLink(t, cluster.Addrs()...), WithNames(Stock))
	me, _ := join(t, s, entry("shell", "lock"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, etcdctl, "--endpoints="+strings.Join(cluster.Addrs(), ","), "lock", "shell", "--", "sh", "-c", "echo locked; sleep 0.3")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var nodes []driver.Node
	for limit := time.Now().Add(10 * time.Second); len(nodes) < 2 && time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		var err error
		if nodes, err = s.d.Line(ctx, "shell"); err != nil {
			t.Fatal(err)
		}
	}
	if len(nodes) != 2 || nodes[0].ID != me.Node().ID || nodes[1].Kind != "lock" {
		t.Fatalf("the line is %v", nodes)
	}
	if lines, err := s.d.Lines(ctx, "she"); err != nil || len(lines) != 1 || lines[0] != "shell" {
		t.Errorf("lines are %q, %v", lines, err)
	}
	behind, ahead := join(t, s, entry("shell", "lock"))
	c := waiter(t, behind, ahead)
	leave(t, me, true)
	answers(t, c, 10*time.Second, nil, "await")
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "locked") {
		t.Errorf("etcdctl: %v\n%s", err, out.String())
	}
	leave(t, behind, true)
}

// With stock names, the end of the key tells a reader from others; a stock contender is exclusive.
func TestReadersAmongStockContenders(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	root := direct(t, cluster)
	s := open(t, connectLink(t, cluster.Addrs()...), WithNames(Stock))
	reader := entry("mixed", "R")
	reader.Sight = driver.Sight{Ignore: []string{"R"}}
	r1, ahead := join(t, s, reader)
	if len(ahead) > 0 {
		t.Errorf("ahead of the first reader is %v", ahead)
	}
	r2, ahead := join(t, s, reader)
	if len(ahead) > 0 {
		t.Errorf("ahead of the second reader is %v", ahead)
	}
	if _, err := root.Put(within(t, 10*time.Second), "mixed/1f2e3d", "", clientv3.WithLease(s.lease)); err != nil {
		t.Fatal(err)
	}
	r3, ahead := join(t, s, reader)
	if len(ahead) != 1 || ahead[0].Kind != "lock" {
		t.Errorf("ahead of the third reader is %v, want the stock contender", ahead)
	}
	r4, ahead := join(t, s, reader)
	if len(ahead) != 1 || ahead[0].Kind != "lock" {
		t.Errorf("ahead of the fourth reader is %v, want the stock contender", ahead)
	}
	for _, r := range []driver.Place{r1, r2, r3, r4} {
		leave(t, r, false)
	}
}

// With stock names whoever stands below a line stands in it: the locks of the shards would keep new members out.
func TestShardsWithStockNames(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	ctx := within(t, time.Minute)
	ctx, cancel := context.WithCancel(ctx)
	var owned [2]atomic.Int32
	var all sync.WaitGroup
	for i := range owned {
		d, err := New(direct(t, cluster), WithNames(Stock))
		if err != nil {
			t.Fatal(err)
		}
		c := coord.NewClient(d)
		defer c.Close()
		for i == 1 && owned[0].Load() < 16 && ctx.Err() == nil { // one after the other
			time.Sleep(10 * time.Millisecond)
		}
		all.Go(func() {
			err := shards.New(c, "partitions", 16).Run(ctx, func(ctx context.Context, _ int, _ *coord.Hold) error {
				owned[i].Add(1)
				defer owned[i].Add(-1)
				<-ctx.Done()
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	defer all.Wait() // before the clients are closed
	defer cancel()
	for owned[0].Load() == 0 || owned[1].Load() == 0 || owned[0].Load()+owned[1].Load() < 16 {
		if ctx.Err() != nil {
			t.Fatalf("one owns %d shards, the other %d", owned[0].Load(), owned[1].Load())
		}
		time.Sleep(10 * time.Millisecond)
	}
}
