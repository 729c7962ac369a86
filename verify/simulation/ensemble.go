package simulation

import (
	"cmp"
	"context"
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord"
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
	mixed   bool // clients name their nodes as different tools do

	mu         sync.Mutex
	taken      map[string]time.Time // by path, when an operator took a node away
	contenders map[string]named     // by name; see named
	made       int                  // how many clients
}

const zkRoot = "/turnwise"

// newEnsemble makes an ensemble. cfg says which servers it has, and how they count the time.
func newEnsemble(network *scheduler, ttl time.Duration, cfg zookeeper.Config, mixed bool) *ensemble {
	f := &ensemble{network: network, ttl: ttl, mixed: mixed, taken: make(map[string]time.Time), contenders: make(map[string]named)}
	cfg.Election, cfg.Sweep, cfg.Root, cfg.Network = ttl/10, ttl/20, zkRoot, f
	f.zk = zookeeper.New(cfg)
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
	names := zk.GoLock
	if f.mixed {
		names = []zk.Names{zk.GoLock, zk.Curator, zk.Kazoo}[f.made%3]
	}
	f.made++
	d, err := zk.New(servers, zk.WithTTL(f.ttl), zk.WithRoot(zkRoot), zk.WithNames(names),
		zk.WithDialer(func(ctx context.Context, _, addr string) (net.Conn, error) { return f.zk.Dial(ctx, link, addr) }))
	if err != nil {
		panic(err)
	}
	return d
}

func (f *ensemble) Nodes(line string) (nodes []driver.Node) {
	d, _ := f.zk.Look(zkRoot + "/" + line)
	for _, child := range d.Children {
		if c := f.named(path.Base(child.Path)); c.kind != "" {
			nodes = append(nodes, driver.Node{Line: line, ID: child.Path, Kind: c.kind, Token: driver.Token(d.Born + int64(c.rank))})
		}
	}
	slices.SortFunc(nodes, func(a, b driver.Node) int { return cmp.Compare(a.Token, b.Token) })
	return nodes
}

// Names of contenders, as turnwise, Curator and Kazoo make them. They are parsed here, so that no code of the driver judges
// the driver. Servers before 3.6 go on at -2147483648 when the numbers are at their end.
var (
	own     = regexp.MustCompile(`^_c_[0-9a-f]{32}-(.+?)-(\d{10}|-\d{9,10})$`)
	curator = regexp.MustCompile(`^_c_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-(?:(.+)-)?(lock-|__READ__|__WRIT__)(\d{10}|-\d{9,10})$`)
	kazoo   = regexp.MustCompile(`^[0-9a-f]{32}(?:-(.+))?(__lock__|__rlock__)(\d{10}|-\d{9,10})$`)
	stands  = map[string]string{"lock-": "lock", "__lock__": "lock", "__READ__": "R", "__rlock__": "R", "__WRIT__": "W"}
)

// named is what a contender's name says. The kind of anything else is "".
type named struct {
	kind string
	rank uint32
}

func (f *ensemble) named(name string) (c named) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, known := f.contenders[name]
	if known {
		return c
	}
	var number string
	if m := own.FindStringSubmatch(name); m != nil {
		c.kind, number = m[1], m[2]
	}
	for _, tool := range []*regexp.Regexp{curator, kazoo} {
		if m := tool.FindStringSubmatch(name); m != nil {
			c.kind, number = cmp.Or(m[1], stands[m[2]]), m[3]
		}
	}
	if c.kind != "" {
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil {
			panic(err)
		}
		c.rank = uint32(int32(n))
	}
	f.contenders[name] = c
	return c
}

func (f *ensemble) Guarded(h *coord.Hold) func() bool {
	check, err := zk.Guard(h)
	if err != nil {
		return nil
	}
	return func() bool {
		_, stands := f.zk.Look(check.Path)
		return stands
	}
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

// take remembers the nodes that away removes.
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

// Taken is zero for a node that stands: a join that is repeated after a backup was put back may create the same path again.
func (f *ensemble) Taken(node string) time.Time {
	_, stands := f.zk.Look(node)
	f.mu.Lock()
	defer f.mu.Unlock()
	if stands {
		delete(f.taken, node)
	}
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

func (f *ensemble) Reconnect(link string) { f.zk.Break(link) }

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

// deafen stops everything that the others say to the member that a link is on.
func (f *ensemble) deafen(link string) (heal func()) {
	m := f.zk.MemberOf(link)
	if m == nil {
		return func() {}
	}
	m.Cut(false, true)
	return m.Heal
}

// grant limits the timeouts that members grant.
func (f *ensemble) grant(most time.Duration) {
	for _, m := range f.zk.Members() {
		m.Grant(most)
	}
}

func (f *ensemble) CatchUp(member, n int) int { return f.zk.Members()[member].Follow(n) }

func (f *ensemble) Close() { f.zk.Close() }
