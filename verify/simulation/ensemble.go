package simulation

import (
	"cmp"
	"context"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/zk"
	"github.com/turnwise/turnwise/verify/simulation/zookeeper"
)

// ensemble is a far side that speaks ZooKeeper's protocol. Each client has the driver as it is shipped, coord/zk, on
// go-zookeeper, and connections that the scheduler carries frame by frame.
type ensemble struct {
	network *scheduler
	zk      *zookeeper.Ensemble
	ttl     time.Duration

	mu    sync.Mutex
	taken map[string]time.Time // by path, when an operator took a node away
}

const zkRoot = "/turnwise"

// ticks is how an ensemble counts the time.
type ticks struct {
	length    time.Duration
	syncLimit int // how many of them a member goes on without the others
}

func newEnsemble(network *scheduler, members int, ttl time.Duration, t ticks, rate float64) *ensemble {
	f := &ensemble{network: network, ttl: ttl, taken: make(map[string]time.Time)}
	f.zk = zookeeper.New(zookeeper.Config{Members: members, Tick: t.length, SyncLimit: t.syncLimit, Election: ttl / 10,
		Sweep: ttl / 20, Rate: rate, Root: zkRoot, Network: f})
	return f
}

func (f *ensemble) ToMember(p zookeeper.Parcel) {
	f.network.post(&parcel{link: p.Link, conn: p.Connection, what: p.What, dir: toService, lose: func() {}, arrive: func() { p.Arrive() }})
}

func (f *ensemble) ToClient(p zookeeper.Parcel) {
	back := parcel{link: p.Link, conn: p.Connection, what: p.What, dir: toDriver, lose: func() {}}
	back.arrive = func() {
		if !p.Arrive() {
			return
		}
		switch {
		case p.HungUp:
			f.network.breaks(p.Link)
		case !p.Event:
			f.network.answered(p.Link, p.What)
		case p.Deleted != "" && p.Owner == p.Link:
			f.network.hearGone(p.Deleted)
		}
	}
	f.network.post(&back)
}

func (f *ensemble) NewDriver(link string) driver.Driver {
	var servers []string
	for _, m := range f.zk.Members() {
		servers = append(servers, m.Address())
	}
	d, err := zk.New(servers, zk.WithTTL(f.ttl), zk.WithRoot(zkRoot),
		zk.WithDialer(func(ctx context.Context, _, addr string) (net.Conn, error) { return f.zk.Dial(ctx, link, addr) }))
	if err != nil {
		panic(err)
	}
	return d
}

func (f *ensemble) Nodes(line string) (nodes []driver.Node) {
	d, _ := f.zk.Look(zkRoot + "/" + line)
	for _, child := range d.Children {
		name := path.Base(child.Path)
		const head = len("_c_") + 32 + len("-")
		if !strings.HasPrefix(name, "_c_") || len(name) < head+len("-0000000000") {
			continue
		}
		cut := len(name) - 10
		n, err := strconv.Atoi(name[cut:])
		if err != nil {
			continue
		}
		nodes = append(nodes, driver.Node{Line: line, ID: child.Path, Kind: name[head : cut-1], Token: driver.Token(d.Born + int64(n))})
	}
	slices.SortFunc(nodes, func(a, b driver.Node) int { return cmp.Compare(a.Token, b.Token) })
	return nodes
}

func (f *ensemble) Names(prefix string) (names []string) {
	for _, dir := range f.zk.Below(zkRoot) {
		name := strings.TrimPrefix(dir, zkRoot+"/")
		if strings.HasPrefix(name, prefix) && len(f.Nodes(name)) > 0 {
			names = append(names, name)
		}
	}
	return names
}

func (f *ensemble) Expiry(node string) time.Time {
	if s := f.zk.OwnerOf(node); s != nil {
		return f.zk.Expires(s)
	}
	return time.Time{}
}

func (f *ensemble) LinkOf(node string) string {
	if s := f.zk.OwnerOf(node); s != nil && !f.zk.Expires(s).IsZero() {
		return s.Link()
	}
	return ""
}

func (f *ensemble) Abandoned(node string) bool {
	s := f.zk.OwnerOf(node)
	return s != nil && !f.zk.Connected(s)
}

// take remembers what is taken away.
func (f *ensemble) take(away func()) {
	before := f.zk.Below(zkRoot)
	away()
	f.mu.Lock()
	defer f.mu.Unlock()
	stands := make(map[string]bool)
	for _, p := range f.zk.Below(zkRoot) {
		stands[p] = true
		delete(f.taken, p) // it has come back with a backup
	}
	for _, p := range before {
		if !stands[p] {
			f.taken[p] = time.Now()
		}
	}
}

// Taken knows nothing of a node that stands: a join that is repeated after a backup was put back may make the same path again.
func (f *ensemble) Taken(node string) time.Time {
	if _, stands := f.zk.Look(node); stands {
		return time.Time{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.taken[node]
}

func (*ensemble) Tidy()               {}
func (*ensemble) Watches() int        { return 0 } // none is ever taken back
func (f *ensemble) Remains() []string { return f.zk.Dead() }

func (f *ensemble) Remove(node string) (removed bool) {
	f.take(func() { removed = f.zk.Remove(node) })
	return removed
}

func (f *ensemble) Write(node string, data []byte) { f.zk.Write(node, data) }
func (f *ensemble) ExpireLink(link string)         { f.take(func() { f.zk.Expire(link) }) }
func (f *ensemble) Refuse(link string)             { f.zk.Refuse(link) }

func (f *ensemble) restore(back, since int) { f.take(func() { f.zk.Restore(back, since) }) }

func (f *ensemble) Reconnect(link string) {
	f.network.breaks(link)
	f.zk.Break(link)
}

func (f *ensemble) Strand(link string) (heal func()) {
	m := f.zk.MemberOf(link)
	if m == nil {
		return func() {}
	}
	m.Cut(true, true)
	return m.Heal
}

// kill ends the member that a link is on.
func (f *ensemble) kill(link string) (back func()) {
	m := f.zk.MemberOf(link)
	if m == nil {
		return func() {}
	}
	m.Kill()
	return m.Start
}

// deafen has nothing arrive that the others say to the member that a link is on.
func (f *ensemble) deafen(link string) (heal func()) {
	m := f.zk.MemberOf(link)
	if m == nil {
		return func() {}
	}
	m.Cut(false, true)
	return m.Heal
}

// grant has all members grant that timeout at most.
func (f *ensemble) grant(most time.Duration) {
	for _, m := range f.zk.Members() {
		m.Grant(most)
	}
}

func (f *ensemble) CatchUp(member, n int) int { return f.zk.Members()[member].Follow(n) }

func (f *ensemble) Close() { f.zk.Close() }
