package zk

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
	"github.com/turnwise/turnwise/verify/servers"
)

// harness is what drivertest needs to know about a ZooKeeper and do to it.
type harness struct {
	cluster *servers.Cluster
	admin   *gozk.Conn // bypasses every proxy
	root    string
	ttl     time.Duration
	opts    []Option

	mu    sync.Mutex
	ends  map[string]int32     // where the numbers of a line end, for a while
	empty map[string]time.Time // directories that were found empty, and when that was first so
}

var harnesses atomic.Int64

func newHarness(t testing.TB, cluster *servers.Cluster, opts ...Option) *harness {
	h := &harness{
		cluster: cluster,
		admin:   adminConn(t, cluster.Addrs()),
		root:    fmt.Sprintf("/conformance%d", harnesses.Add(1)),
		ttl:     3 * time.Second,
		opts:    opts,
		ends:    make(map[string]int32),
		empty:   make(map[string]time.Time),
	}
	return h
}

type silence struct{}

func (silence) Printf(string, ...any) {}

// adminConn is a session straight to the servers, past all proxies, which sees the truth.
func adminConn(t testing.TB, addrs []string) *gozk.Conn {
	var latest atomic.Pointer[net.Conn]
	dial := func(network, address string, timeout time.Duration) (net.Conn, error) {
		c, err := net.DialTimeout(network, address, timeout)
		if err == nil {
			latest.Store(&c)
		}
		return c, err
	}
	conn, events, err := gozk.Connect(addrs, 30*time.Second, gozk.WithLogger(silence{}), gozk.WithDialer(dial))
	require.NoError(t, err)
	t.Cleanup(func() {
		conn.Close()
		if c := latest.Load(); c != nil {
			(*c).Close() // the library waits 200 s for a greeting that does not come
		}
		for range events { // until its goroutines have ended
		}
	})
	for limit := time.After(20 * time.Second); ; {
		select {
		case e := <-events:
			if e.State == gozk.StateHasSession {
				return conn
			}
		case <-limit:
			t.Fatal("no session for the admin")
		}
	}
}

func (h *harness) service() *drivertest.Service {
	return &drivertest.Service{
		TTL:          h.ttl,
		Connect:      h.connect,
		Stored:       h.stored,
		Remains:      h.remains,
		PlantForeign: h.plantForeign,
		Meddle:       h.meddle,
		Forget:       h.forget,
		NearEnd:      h.nearEnd,
		Budget: drivertest.Budget{
			Join:    drivertest.Cost{Writes: 1, Reads: 1, Trips: 1},
			Leave:   drivertest.Cost{Writes: 1, Trips: 1},
			Handoff: drivertest.Cost{Events: 1},
		},
	}
}

// wiring is a link's way to the service: a proxy in front of each server.
type wiring struct {
	h       *harness
	proxies []*zkwire.Proxy

	mu     sync.Mutex
	frozen [2]int // by faultproxy.Direction
	cuts   int
	delay  time.Duration
	fates  []doom
}

type doom struct {
	drivertest.Fate
	met chan struct{}
}

func (h *harness) connect(t testing.TB) *drivertest.Link {
	l, _ := h.wire(t)
	return l
}

func (h *harness) wire(t testing.TB, opts ...Option) (*drivertest.Link, *wiring) {
	w := &wiring{h: h}
	var addrs []string
	for _, a := range h.cluster.Addrs() {
		p := zkwire.Start(t, a)
		p.OnRequest(w.decide)
		w.proxies = append(w.proxies, p)
		addrs = append(addrs, p.Addr())
	}
	all := append([]Option{WithTTL(h.ttl), WithRoot(h.root), WithLogger(drivertest.Logger(t))}, h.opts...)
	d, err := newService(addrs, append(all, opts...))
	require.NoError(t, err)
	d.nearEnd = h.isNearEnd
	t.Cleanup(func() {
		w.heal()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = d.Close(ctx)
	})
	return &drivertest.Link{
		Driver:  d,
		Fate:    w.fate,
		Freeze:  w.freeze,
		Cut:     w.cut,
		Delay:   w.delayed,
		Expire:  h.expire,
		Traffic: w.traffic,
	}, w
}

func (w *wiring) fate(f drivertest.Fate) <-chan struct{} {
	d := doom{f, make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fates = append(w.fates, d)
	return d.met
}

// decide assigns the next fate to a request that creates, changes or deletes a contender.
func (w *wiring) decide(r zkwire.Request) zkwire.Verdict {
	switch r.Op {
	case zkwire.Create, zkwire.Delete, zkwire.SetData, zkwire.Multi:
	default:
		return zkwire.Pass
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.fates) == 0 || !isContenderPath(r) {
		return zkwire.Pass
	}
	d := w.fates[0]
	w.fates = w.fates[1:]
	if d.Fate == drivertest.LostBefore {
		close(d.met)
		return zkwire.DropBeforeApply
	}
	// ZooKeeper keeps a client's requests in order, so nothing is applied late. Once the connection has been cut, the request
	// was applied.
	before := w.accepted()
	go func() {
		defer close(d.met)
		for range 1000 {
			if time.Sleep(time.Millisecond); w.accepted() > before {
				return
			}
		}
	}()
	return zkwire.DropReply
}

// accepted returns how many connections have been made.
func (w *wiring) accepted() int {
	n := 0
	for _, p := range w.proxies {
		n += p.Accepted()
	}
	return n
}

func isContenderPath(r zkwire.Request) bool {
	name := path.Base(r.Path)
	if r.Op == zkwire.Create {
		name += "0000000000"
	}
	_, ok := parseContender(name)
	return ok
}

// apply applies the present faults again.
func (w *wiring) apply() {
	for _, p := range w.proxies {
		p.Together(func() {
			p.Heal()
			for d, n := range w.frozen {
				if n > 0 {
					p.Stall(faultproxy.Direction(d))
				}
			}
			if w.delay > 0 {
				p.Delay(w.delay)
			}
			if w.cuts > 0 {
				p.Refuse()
			}
		})
	}
}

// fault makes a change, and returns a function that undoes it once.
func (w *wiring) fault(do, undo func()) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
	w.apply()
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		undo()
		w.apply()
	})
}

func (w *wiring) freeze(d drivertest.Direction) func() {
	add := func(n int) func() {
		return func() {
			if d&drivertest.Requests != 0 {
				w.frozen[faultproxy.ToServer] += n
			}
			if d&drivertest.Replies != 0 {
				w.frozen[faultproxy.ToClient] += n
			}
		}
	}
	return w.fault(add(1), add(-1))
}

func (w *wiring) cut() func() {
	heal := w.fault(func() { w.cuts++ }, func() { w.cuts-- })
	for _, p := range w.proxies {
		p.Cut()
	}
	return heal
}

func (w *wiring) delayed(each time.Duration) func() {
	return w.fault(func() { w.delay += each }, func() { w.delay -= each })
}

func (w *wiring) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen, w.cuts, w.delay, w.fates = [2]int{}, 0, 0, nil
	w.apply()
}

func (w *wiring) traffic() (t drivertest.Traffic) {
	for _, p := range w.proxies {
		t.Writes += p.Requests(zkwire.Create, zkwire.Delete, zkwire.SetData, zkwire.Multi, zkwire.CreateContainer, zkwire.SetACL)
		t.Reads += p.Requests(zkwire.Exists, zkwire.GetData, zkwire.GetACL, zkwire.GetChildren, zkwire.GetChildren2, zkwire.Sync)
		t.Events += p.Events()
		t.Sent += p.Bytes(faultproxy.ToServer)
		t.Received += p.Bytes(faultproxy.ToClient)
	}
	return t
}

func (h *harness) path(line string) string { return (&config{root: h.root}).path(line) }

// stored lists what is in a line's directory, except the directories of lines below it.
func (h *harness) stored(t testing.TB, line string) []string {
	dir := h.path(line)
	for range 100 {
		_, err := h.admin.Sync(dir)
		if err == nil {
			var names []string
			names, _, err = h.admin.Children(dir)
			if err == gozk.ErrNoNode {
				return nil
			}
			if err == nil {
				return slices.DeleteFunc(names, isLine)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("the admin cannot list %s", dir)
	return nil
}

// meddle writes to the contenders of a line, with an operator's rights.
func (h *harness) meddle(t testing.TB, line string) {
	for _, name := range h.stored(t, line) {
		node := h.path(line) + "/" + name
		if _, ok := parseContender(name); !ok {
			continue
		}
		said, _, err := h.admin.Get(node)
		if err == nil {
			_, err = h.admin.Set(node, append(said, '!'), -1)
		}
		if err != nil && err != gozk.ErrNoNode {
			t.Errorf("meddle with %s: %v", node, err)
		}
	}
}

// isLine reports whether a node is the directory of a nested line: the service does not tell containers from nodes that a
// test planted, but their names do.
func isLine(name string) bool {
	_, contender := parseContender(name)
	return !contender && !slices.Contains(foreigners, name)
}

// remains lists what the service will not remove by itself. The service sweeps empty containers, the inner one first and
// the one around it in the next round, so a deep line takes a while. But it never sweeps a container that never had a
// child.
func (h *harness) remains(t testing.TB) []string {
	var all []string
	var visit func(dir string)
	visit = func(dir string) {
		names, stat, err := h.admin.Children(dir)
		switch {
		case err == gozk.ErrNoNode:
			return
		case err != nil:
			all = append(all, fmt.Sprintf("%s: %v", dir, err))
		case len(names) == 0 && (stat.Cversion == 0 || h.emptyFor(dir) > 3*time.Second):
			all = append(all, dir)
		}
		for _, n := range names {
			visit(dir + "/" + n)
		}
	}
	visit(h.root)
	return all
}

// emptyFor returns for how long the directory has been found empty.
func (h *harness) emptyFor(dir string) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.empty[dir]; !ok {
		h.empty[dir] = time.Now()
	}
	return time.Since(h.empty[dir])
}

func (h *harness) plantForeign(t testing.TB, line string) {
	dir := h.path(line)
	h.mkdir(t, dir)
	for _, name := range foreigners {
		p := dir + "/" + name
		t.Cleanup(func() { _ = h.admin.Delete(p, -1) }) // first: what fails may be there all the same
		_, err := h.admin.Create(p, []byte("foreign"), 0, gozk.WorldACL(gozk.PermAll))
		require.NoError(t, err)
	}
}

func (h *harness) mkdir(t testing.TB, dir string) {
	if dir == "/" {
		return
	}
	h.mkdir(t, path.Dir(dir))
	_, err := h.admin.CreateContainer(dir, nil, gozk.FlagContainer, gozk.WorldACL(gozk.PermAll))
	if err != gozk.ErrNodeExists {
		require.NoError(t, err)
	}
}

func (h *harness) forget(t testing.TB, line string) {
	err := h.admin.Delete(h.path(line), -1)
	if err != gozk.ErrNoNode { // it was swept
		require.NoError(t, err)
	}
}

// nearEnd makes the numbers of a line end a few after the present one. To bring the server's own counter there would take a
// doctored snapshot, as in TestTheCounterSticksAtItsEnd.
func (h *harness) nearEnd(t testing.TB, line string) {
	_, stat, err := h.admin.Get(h.path(line))
	if err == gozk.ErrNoNode { // it was swept
		stat, err = &gozk.Stat{}, nil
	}
	require.NoError(t, err)
	h.endsAt(line, stat.Cversion+5)
}

func (h *harness) endsAt(line string, end int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends[line] = end
}

func (h *harness) isNearEnd(line string, seq int32) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	end, ok := h.ends[line]
	return ok && seq >= end || nearEnd(line, seq)
}

// expire makes the service end a session as its own client would, which anyone may who knows its id and password.
func (h *harness) expire(t testing.TB, ds driver.Session) {
	id := ds.(*session).identity.Load()
	for try := 0; ; try++ {
		err := closeSession(h.cluster.Addrs()[try%len(h.cluster.Addrs())], id)
		if err == nil {
			return
		}
		if try == 50 {
			t.Errorf("cannot expire session %#x: %v", uint64(id.ID), err)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// closeSession takes a session over and closes it.
func closeSession(addr string, id *wire.Identity) error {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	var b []byte
	b = binary.BigEndian.AppendUint32(b, 44)
	b = binary.BigEndian.AppendUint32(b, 0)    // version
	b = binary.BigEndian.AppendUint64(b, 0)    // zxid seen
	b = binary.BigEndian.AppendUint32(b, 2000) // timeout
	b = binary.BigEndian.AppendUint64(b, uint64(id.ID))
	b = binary.BigEndian.AppendUint32(b, uint32(len(id.Password)))
	b = append(b, id.Password...)
	if _, err = conn.Write(b); err != nil {
		return err
	}
	greeting, err := zkwire.ReadFrame(conn)
	if err != nil {
		return err
	}
	if binary.BigEndian.Uint64(greeting[8:]) == 0 {
		return nil // it has ended already
	}
	b = binary.BigEndian.AppendUint32(nil, 8)
	b = binary.BigEndian.AppendUint32(b, 1)
	b = binary.BigEndian.AppendUint32(b, 0xfffffff5) // close
	if _, err = conn.Write(b); err != nil {
		return err
	}
	_, err = zkwire.ReadFrame(conn)
	return err
}

func connectTo(t *testing.T, m *servers.Member, ttl time.Duration, more ...*servers.Member) *coord.Client {
	addrs := []string{m.Addr()}
	for _, m := range more {
		addrs = append(addrs, m.Addr())
	}
	c, err := Connect(t.Context(), addrs, WithTTL(ttl))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// logged is what a driver has logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logged) count(words string) int { return strings.Count(l.String(), words) }
