package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/servers"
)

// There are more lines than one read returns, and some are longer than that.
func TestLinesArePagedAndLongOnesSkipped(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	l := connectLink(t, cluster.Addrs()...)
	for _, names := range []Names{Isolated, Stock} {
		s := open(t, l, WithNames(names), WithRoot(fmt.Sprint("paged/", names)))
		add := func(line string) {
			join(t, s, entry(line, "lock"))
		}
		for range 2 * page {
			add("b")
		}
		for i := range page + 10 {
			add(fmt.Sprintf("c/%04d", i))
		}
		add("a")
		add("b/c")
		before := l.counted()
		lines, err := s.d.Lines(within(t, 20*time.Second), "")
		if err != nil {
			t.Fatal(err)
		}
		if len(lines) != page+13 || lines[0] != "a" || lines[1] != "b" || lines[2] != "b/c" || lines[3] != "c/0000" {
			t.Errorf("%d lines: %q …", len(lines), lines[:min(4, len(lines))])
		}
		if n := l.counted().Sub(before).Reads; names == Isolated && n > 4 {
			t.Errorf("it took %d reads", n)
		}
		if some, err := s.d.Lines(within(t, 20*time.Second), "c/000"); err != nil || len(some) != 10 {
			t.Errorf("%d lines with a prefix, %v", len(some), err)
		}
		if err := s.Close(within(t, 20*time.Second)); err != nil {
			t.Error(err)
		}
	}
}

// scales remember the size of the largest reply.
type scales struct{ largest atomic.Int64 }

func (*scales) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*scales) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*scales) HandleConn(context.Context, stats.ConnStats)                       {}
func (s *scales) HandleRPC(_ context.Context, r stats.RPCStats) {
	if in, ok := r.(*stats.InPayload); ok {
		s.largest.Store(max(s.largest.Load(), int64(in.Length)))
	}
}

// weighed makes a link that records the size of its largest reply.
func weighed(t *testing.T, addrs []string) (*link, *atomic.Int64) {
	s := new(scales)
	return connectLinkWith(t, clientv3.Config{DialOptions: []grpc.DialOption{grpc.WithStatsHandler(s)}}, addrs...), &s.largest
}

// Somebody has filled a line with large values that are not of contenders. A client that looks at it need not read them all
// at once.
func TestJunkInALineIsTakenInPieces(t *testing.T) {
	cluster := servers.Etcd(t)
	root := direct(t, cluster)
	l, size := weighed(t, cluster.Addrs())
	s := open(t, l)
	prefix := s.d.keys.line("junk")
	junk := strings.Repeat("x", 1<<20)
	for i := range 40 {
		if _, err := root.Put(within(t, 20*time.Second), fmt.Sprintf("%s%03d", prefix, i), junk); err != nil {
			t.Fatal(err)
		}
	}
	me, _ := join(t, s, entry("junk", "lock"))
	for i := range 3 {
		if _, err := root.Put(within(t, 20*time.Second), fmt.Sprintf("%sx%03d", prefix, i), junk); err != nil {
			t.Fatal(err)
		}
	}
	behind, ahead := join(t, s, entry("junk", "lock"))
	if len(ahead) != 1 || ahead[0].ID != me.Node().ID {
		t.Errorf("ahead is %v", ahead)
	}
	if n := size.Load(); n > 4<<20 {
		t.Errorf("a reply to a join has %d bytes", n)
	}
	first, err := drivertest.FirstNode(within(t, 20*time.Second), s.d, "junk", nil)
	if err != nil || first.ID != me.Node().ID {
		t.Errorf("the first is %v, %v", first, err)
	}
	if n := size.Load(); n > 4<<20 {
		t.Errorf("a reply to First has %d bytes", n)
	}
	nodes, err := s.d.Line(within(t, 20*time.Second), "junk")
	if err != nil || len(nodes) != 2 || nodes[0].ID != me.Node().ID || nodes[1].Owner.PID != 1 {
		t.Errorf("the line is %v, %v", nodes, err)
	}
	if n := size.Load(); n > 20<<20 {
		t.Errorf("a reply to Line has %d bytes", n)
	}
	leave(t, me, true)
	leave(t, behind, true)
}

// Long lines take proportionate time, but no longer than the context allows.
func TestALongLineIsReadInPages(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	l, size := weighed(t, cluster.Addrs())
	s := open(t, l)
	const n = 2500
	crowdIn(t, s, "long", n)
	nodes, err := s.d.Line(within(t, 20*time.Second), "long")
	if err != nil || len(nodes) != n || !slices.IsSortedFunc(nodes, byToken) {
		t.Errorf("%d nodes, %v", len(nodes), err)
	}
	if size := size.Load(); size > 1<<20 {
		t.Errorf("a reply has %d bytes", size)
	}
	ctx, cancel := context.WithCancel(within(t, 20*time.Second))
	var asked atomic.Int64
	end := func(string, any) {
		if asked.Add(1) == 2 {
			cancel()
		}
	}
	l.onSend.Store(&end)
	if _, err := s.d.Line(ctx, "long"); !errors.Is(err, context.Canceled) {
		t.Errorf("with its context at an end: %v", err)
	}
}

// A node's ID may come from a form, a file or a colleague: whatever it names outside its line is left alone.
func TestBreakStaysInItsLine(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	root := direct(t, cluster)
	for _, names := range []Names{Isolated, Stock} {
		d := connectLink(t, cluster.Addrs()...).service(t, WithNames(names), WithRoot(fmt.Sprint("broken/", names)))
		mine := coord.NewClient(d, coord.WithNamespace("mine"))
		line := d.keys.line("mine/line")
		for _, key := range []string{
			"elsewhere",                            // outside the root
			d.keys.root + "elsewhere",              // in no line
			d.keys.line("other/line") + "lock/1-1", // another namespace's
			d.keys.line("mine/other") + "lock/1-1", // another line's
			d.keys.epoch(1),                        // a session's
			line,
			strings.TrimSuffix(line, "/"),
		} {
			put, err := root.Put(within(t, 10*time.Second), key, "x")
			if err != nil {
				t.Fatal(err)
			}
			n := coord.Node{Line: "line", ID: nodeID(key, put.Header.Revision), Token: coord.Token(put.Header.Revision) << coord.TurnBits}
			if err := mine.Break(within(t, 10*time.Second), n); !errors.Is(err, coord.ErrRemoved) {
				t.Errorf("names %d: breaking %q: %v", names, key, err)
			}
			if got, err := root.Get(within(t, 10*time.Second), key); err != nil || got.Count != 1 {
				t.Errorf("names %d: %q is gone", names, key)
			}
			if _, err := root.Delete(within(t, 10*time.Second), key); err != nil {
				t.Fatal(err)
			}
		}
		if err := mine.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Somebody else puts keys with names that no call accepts. They are not lines, and are not shown.
func TestNamesThatNobodyMaySeeAreNoLines(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	root := direct(t, cluster)
	d := connectLink(t, cluster.Addrs()...).service(t, WithRoot("unseen/"))
	c := coord.NewClient(d)
	for _, name := range []string{"good", "\nevil", "a\u202eb", "\xff"} {
		if _, err := root.Put(within(t, 10*time.Second), d.keys.line(name)+"lock/1-1", ""); err != nil {
			t.Fatal(err)
		}
	}
	if lines, err := c.Lines(within(t, 10*time.Second), ""); err != nil || len(lines) != 1 || lines[0] != "good" {
		t.Errorf("lines are %q, %v", lines, err)
	}
	if _, err := root.Delete(within(t, 10*time.Second), "unseen/", clientv3.WithPrefix()); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// Anyone who may stand in a line may do so many times, with a megabyte of data each time.
func TestWhatALineSaysIsKeptUpToABound(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	root := direct(t, cluster)
	s := open(t, connectLink(t, cluster.Addrs()...))
	const nodes, each = 20, 10_000
	for i := range nodes {
		key := fmt.Sprintf("%sW/a-%d", s.d.keys.line("loud"), i+1)
		if _, err := root.Put(within(t, 10*time.Second), key, amendedHead+"R\n"+strings.Repeat("x", each)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = root.Delete(context.Background(), s.d.keys.line("loud"), clientv3.WithPrefix()) })
	s.d.lineBytes = 5 * each
	line, err := s.d.Line(within(t, 10*time.Second), "loud")
	if err != nil || len(line) != nodes {
		t.Fatalf("%d nodes, %v", len(line), err)
	}
	kept := 0
	for i, n := range line {
		kept += len(n.Data)
		if n.Kind != "R" || i > 0 && n.Token <= line[i-1].Token {
			t.Errorf("number %d is %s with token %d", i, n.Kind, n.Token)
		}
	}
	if kept != 5*each {
		t.Errorf("%d bytes were kept, want %d", kept, 5*each)
	}
}

// With stock names, all that stands in a line is read to list the lines. What somebody puts into one of them hides no other.
func TestALineOfLargeValuesHidesNoOther(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	const most = 100 << 10
	l := connectLinkWith(t, clientv3.Config{MaxCallRecvMsgSize: most}, cluster.Addrs()...)
	d := l.service(t, WithNames(Stock), WithRoot("hidden"))
	s, err := d.Open(within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"a", "z"} {
		e := entry(line, "lock")
		if _, _, err := s.Join(within(t, 20*time.Second), e); err != nil {
			t.Fatal(err)
		}
	}
	bob := direct(t, cluster)
	for i := range 100 {
		if _, err := bob.Put(within(t, 10*time.Second), fmt.Sprintf("hidden/his/%x", i), strings.Repeat("x", most*2/3)); err != nil {
			t.Fatal(err)
		}
	}
	lines, err := d.Lines(within(t, 20*time.Second), "")
	if err != nil || !slices.Equal(lines, []string{"a", "z"}) {
		t.Errorf("%q, %v", lines, err)
	}
}
