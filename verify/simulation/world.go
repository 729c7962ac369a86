package simulation

import (
	"context"
	"fmt"
	"hash"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	etcddriver "github.com/turnwise/turnwise/coord/etcd"
	"github.com/turnwise/turnwise/verify/simulation/etcdcluster"
	"github.com/turnwise/turnwise/verify/simulation/zookeeper"
)

// Config says what to run.
type Config struct {
	Seed    uint64
	Profile Profile
	Recipe  string
	Faults  bool
	Rounds  int           // of each contender; zero: 4
	TTL     time.Duration // zero: 2 or 10 s, as the seed decides
	Trace   func(string)  // nil: none
}

// Report is what a run did.
type Report struct {
	Wrong  error    // nil: nothing
	Trace  []string // a run may not be the same again
	Grants int
	Steps  int
	Sum    uint64 // of all steps: equal for equal runs
}

// world is one run.
type world struct {
	cfg       Config
	rand      *rand.Rand
	scheduler *scheduler
	service   service
	replicas  int
	servers   zookeeper.Config // of an ensemble
	cluster   etcdcluster.Config
	foreign   bool // nodes are named as other tools do
	swift     bool // what follows the end of a session takes no time
	clients   []*client
	lines     []string
	steps     int
	sum       hash.Hash64
	began     time.Time
	healed    time.Time // when the last fault was over; zero: there may be more
	stranded  []stranding
	held      time.Time            // until then, some server's words to another are late
	idle      map[string]time.Time // for each line, since when it has been somebody's turn with no news of that on its way

	nap time.Duration // how long that may last

	mu      sync.Mutex
	crowded map[string]time.Time // for each line, when somebody stood in it, or may have
	claims  []*claim
	last    greatest             // granted
	written greatest             // whose guarded write was taken
	taken   map[turn]time.Time   // nodes that were taken away out of the blue
	unmade  map[string]time.Time // nodes that were taken away, by their IDs: after a backup was put back, numbers come again
	waited  map[place]bool       // nodes whose turn it was not when they joined
	partial map[turn]time.Time   // when turns came; some before all had come that were asked for together
	denied  time.Time            // until when rights were away, or are to be
	slots   map[string]*slots    // of the job of each line
	rounds  map[round]int        // how many have gone on in each
	grants  int
	wrong   error
	kept    []string
	stood   string // at the last step

	restored   bool          // a backup has been put back
	restoredAt time.Time     // the last time
	strays     time.Duration // how long a node may stand that nobody knows of
}

// turn is a contender's turn in its line: the tokens of two lines may be the same.
type turn struct {
	line  string
	token coord.Token
}

// place is a node's place in its line. It is more than a token: after a backup was put back, another node may get the same
// token.
type place struct{ line, node string }

func placeOf(n coord.Node) place { return place{n.Line, incarnation(n)} }

// client is one process with several contenders.
type client struct {
	*coord.Client
	driver driver.Driver
	name   string
}

// versions of ZooKeeper that differ in what a driver may notice.
var versions = []zookeeper.Version{{Major: 3, Minor: 4, Patch: 14}, {Major: 3, Minor: 5, Patch: 10}, {Major: 3, Minor: 8}, {Major: 3, Minor: 9, Patch: 3}}

// everything is more than any replica lags behind.
const everything = 1 << 30

// patience is how long the last contender may take once everything is healed, in simulated time.
const patience = 3 * time.Minute

// Run runs a simulation in a bubble of its own; it is called within synctest.Test.
func Run(cfg Config) Report {
	if cfg.Rounds == 0 {
		cfg.Rounds = 4
	}
	if cfg.TTL == 0 {
		cfg.TTL = []time.Duration{2 * time.Second, 10 * time.Second}[cfg.Seed%2]
	}
	w := newWorld(cfg)
	switch cfg.Profile {
	case ZooKeeper:
		w.servers = zookeeper.Config{
			Members: []int{1, 3, 3, 5}[w.rand.IntN(4)], Observers: w.rand.IntN(4) / 3,
			Tick: cfg.TTL / time.Duration(4+w.rand.IntN(17)), SyncLimit: 2 + w.rand.IntN(20),
			Version: versions[w.rand.IntN(len(versions))],
		}
		w.replicas = w.servers.Members + w.servers.Observers
		if w.rand.IntN(8) == 0 { // the numbers of the lines are almost used up, or are about to be too few for the driver
			w.servers.Numbers = math.MaxInt32 - int32([]int{w.rand.IntN(4), 1<<20 + w.rand.IntN(10)}[w.rand.IntN(2)])
			w.servers.Numbered = []string{zkRoot + "/b", zkRoot + "/a"}[w.rand.IntN(2):]
			w.lines = []string{"a", "b"} // a line within another one keeps that one from beginning anew
		}
	case Etcd:
		w.replicas = 1 + 2*w.rand.IntN(2)
		w.cluster.Proxied = w.rand.IntN(6) == 0
	}
	if w.foreign = cfg.Profile != Register && w.rand.IntN(4) == 0; w.foreign && cfg.Profile == Etcd {
		w.lines = []string{"a", "b"} // for other tools, all that is below a name is in its line
	}
	w.swift = w.rand.IntN(4) == 0
	if w.servers.Slow = w.servers.Members > 1 && w.rand.IntN(4) == 0; w.servers.Slow { // a server is not given up before its sessions
		w.servers.SyncLimit += int(cfg.TTL / w.servers.Tick)
	}
	w.start(0.94 + w.rand.Float64()*0.12)
	w.run()
	return w.reported()
}

func newWorld(cfg Config) *world {
	nap := cfg.TTL / 5
	if cfg.Profile == ZooKeeper { // after a slow greeting nobody knows for three eighths of it whether the leader knows of the session
		nap = cfg.TTL * 3 / 5
	}
	return &world{
		cfg: cfg, nap: nap, crowded: make(map[string]time.Time), rand: rand.New(rand.NewPCG(cfg.Seed, 1)), scheduler: newScheduler(cfg.Profile), replicas: 1, began: time.Now(),
		sum: fnv.New64a(), last: make(greatest), written: make(greatest),
		taken: make(map[turn]time.Time), unmade: make(map[string]time.Time), waited: make(map[place]bool), partial: make(map[turn]time.Time), idle: make(map[string]time.Time), slots: make(map[string]*slots), rounds: make(map[round]int), lines: []string{"a", "a/b"},
	}
}

// start starts the service, whose clock runs at a rate of its own. By their documentation, the drivers for ZooKeeper and
// etcd bear clocks that are some 2% apart.
func (w *world) start(rate float64) {
	if w.cfg.Profile != Register {
		rate = 1 + (rate-1)/3
	}
	switch w.cfg.Profile {
	case Register:
		w.service = newRegisters(w.scheduler, w.cfg.TTL, rate, w.cfg.Seed%3 == 1)
	case ZooKeeper:
		w.servers.Rate = rate
		w.service = newEnsemble(w.scheduler, w.cfg.TTL, w.servers, w.foreign)
	case Etcd:
		names := etcddriver.Isolated
		if w.foreign {
			names = etcddriver.Stock
		}
		w.cluster.Members, w.cluster.Rate = w.replicas, rate
		w.service = newEtcd(w.scheduler, w.cfg.TTL, w.cluster, names)
	}
}

func (w *world) reported() Report { return Report{w.wrong, w.kept, w.grants, w.steps, w.sum.Sum64()} }

// join adds a client.
func (w *world) join(name string) *client {
	d := w.service.NewDriver(name)
	c := &client{coord.NewClient(d, coord.WithObserver(w.observer())), d, name}
	w.clients = append(w.clients, c)
	return c
}

func (w *world) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	for i := range 2 + w.rand.IntN(3) {
		c := w.join(fmt.Sprintf("c%d", i))
		for j := range 1 + w.rand.IntN(2) {
			who := &contender{world: w, name: fmt.Sprintf("%s%c", c.name, 'a'+j), client: c,
				line: w.lines[w.rand.IntN(5)/4], rand: rand.New(rand.NewPCG(w.cfg.Seed, uint64(100*i+j+2)))}
			all.Go(func() { who.run(ctx) })
		}
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()

	faulty := w.cfg.Faults
	for !ended(done) && w.ok() {
		w.step(faulty)
		switch {
		case faulty && w.steps > 400 && (!w.servers.Slow || w.steps > 800):
			faulty, w.healed = false, time.Now()
			w.scheduler.heal()
			w.rejoin(true)
			w.hasten()
			w.note("everything is healed")
		case !faulty && !w.healed.IsZero() && time.Since(w.healed) > patience, w.steps > 20000:
			w.mu.Lock()
			w.report("somebody never comes through: %s", w.standings())
			w.mu.Unlock()
		}
	}
	w.finish(cancel, &all)
}

func (w *world) observer() *coord.Observer {
	return &coord.Observer{Waiting: func(_ time.Time, me coord.Node, _ int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.waited[placeOf(me)] = true
	}, Granted: func(at time.Time, me coord.Node, _ time.Duration) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.partial[turn{me.Line, me.Token}] = at
	}}
}

func ended(done chan struct{}) bool {
	synctest.Wait()
	select {
	case <-done:
		return true
	default:
		return false
	}
}

func (w *world) ok() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wrong == nil
}

// finish lets everybody go, and checks what is left.
func (w *world) finish(cancel func(), all *sync.WaitGroup) {
	failed := !w.ok()
	if failed {
		cancel()
	}
	w.rejoin(true)
	w.hasten()
	w.drain()
	w.scheduler.openUp()
	for i := range w.replicas {
		w.service.CatchUp(i, everything)
	}
	all.Wait()
	w.service.Tidy()
	time.Sleep(w.tidying()) // for clean-ups
	for limit := time.Now().Add(w.tidying()); w.cfg.Profile == Register && len(w.service.Remains()) > 0 && time.Now().Before(limit); {
		time.Sleep(w.cfg.TTL) // two looks in a row were held up
	}
	for i := range w.replicas {
		w.service.CatchUp(i, everything)
	}
	if !failed {
		w.settled()
	}
	for _, c := range w.clients {
		c.Close()
	}
	w.service.Close()
}

// drain ends all freezes. On etcd, where streams must keep their order, it also lets everything arrive that is parked, and
// what that brings about.
func (w *world) drain() {
	w.scheduler.heal()
	for range 1000 {
		ready := w.scheduler.ready()
		if w.cfg.Profile != Etcd || len(ready) == 0 {
			return
		}
		w.scheduler.take(ready[0])
		ready[0].arrive()
		synctest.Wait()
	}
}

// tidying is how long clean-ups may take. On registers one process does them for all. It may first have to take over, then
// to see a session stand still for a TTL, and then to look through the lines. That takes one part in twenty of its time at most,
// and when requests are slow one look takes up to a TTL.
func (w *world) tidying() time.Duration {
	if w.cfg.Profile == Register {
		return 24 * w.cfg.TTL
	}
	return max(2*w.cfg.TTL, w.strays)
}

func (w *world) settled() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.service.Names("") {
		for _, n := range w.nodes(name) {
			w.report("%s of kind %s is left in line %s", n.ID, n.Kind, name)
		}
	}
	for _, left := range w.service.Remains() {
		w.report("%s is left", left)
	}
	if n := w.service.Watches(); n > 0 {
		w.report("%d watches are left", n)
	}
	if len(w.claims) > 0 {
		w.report("%d claims are left", len(w.claims))
	}
}

// standings says who stands in the lines.
func (w *world) standings() string {
	var all []string
	for _, line := range w.lines {
		for _, n := range w.nodes(line) {
			all = append(all, fmt.Sprintf("%s in %s (%s, token %d, of %q)", n.ID, line, n.Kind, n.Token, w.service.LinkOf(n.ID)))
		}
	}
	return strings.Join(all, ", ")
}

// step lets one thing happen and judges the outcome.
func (w *world) step(faulty bool) {
	synctest.Wait()
	w.rejoin(false)
	w.steps++
	what := w.happen(faulty)
	fmt.Fprintf(w.sum, "%s|%d\n", what, time.Since(w.began))
	w.note(what)
	synctest.Wait()
	if s := w.standings(); s != w.stood {
		w.stood = s
		w.note("          " + s)
	}
	if err := w.judge(); err != nil {
		w.mu.Lock()
		w.report("%v", err)
		w.mu.Unlock()
	}
}

func (w *world) note(what string) {
	line := fmt.Sprintf("%5d %12v  %s", w.steps, time.Since(w.began), what)
	w.kept = append(w.kept, line)
	if w.cfg.Trace != nil {
		w.cfg.Trace(line)
	}
}

func (w *world) happen(faulty bool) string {
	ready := w.scheduler.ready()
	each, jump := 20, 30
	if w.servers.Slow { // fewer things break, and for longer
		each, jump = 40, 6
	}
	if faulty && w.rand.IntN(each) == 0 {
		if what := w.fault(ready); what != "" {
			return what
		}
	}
	lagging, between := w.lagging(), w.between()
	choice := w.rand.IntN(len(ready) + len(lagging) + len(between) + 1)
	switch {
	case choice < len(ready):
		p := ready[choice]
		w.scheduler.take(p)
		p.arrive()
		return p.String()
	case choice < len(ready)+len(lagging):
		replica := lagging[choice-len(ready)]
		w.service.CatchUp(replica, 1)
		return fmt.Sprintf("replica %d follows", replica)
	case choice < len(ready)+len(lagging)+len(between):
		way, n := between[choice-len(ready)-len(lagging)], 1+w.rand.IntN(3)
		w.ensemble().zk.Deliver(way, n)
		return fmt.Sprintf("m%d -> m%d %s, and so on: %d at most", way.From, way.To, way.What, n)
	}
	d := time.Duration(w.rand.Int64N(int64(5 * time.Millisecond)))
	if len(ready)+len(lagging)+len(between) == 0 {
		d *= 10 // nothing else can happen
	}
	if faulty && w.rand.IntN(jump) == 0 {
		d = time.Duration(w.rand.Int64N(int64(w.cfg.TTL / 8)))
	}
	time.Sleep(d)
	return fmt.Sprintf("time passes: %v", d)
}

func (w *world) lagging() []int {
	var all []int
	for i := range w.replicas {
		if w.service.CatchUp(i, 0) > 0 {
			all = append(all, i)
		}
	}
	return all
}

// between returns where something may arrive between the servers themselves.
func (w *world) between() []zookeeper.Way {
	if !w.servers.Slow {
		return nil
	}
	return w.ensemble().zk.Waiting()
}

// hasten has everything arrive at once between the servers, from now on.
func (w *world) hasten() {
	if w.servers.Slow {
		w.ensemble().zk.Hasten()
	}
}

func (w *world) node() (driver.Node, bool) {
	var all []driver.Node
	for _, name := range w.service.Names("") {
		all = append(all, w.nodes(name)...)
	}
	if len(all) == 0 {
		return driver.Node{}, false
	}
	return all[w.rand.IntN(len(all))], true
}
