package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord/trace"
	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/servers"
)

// A plan says what to run.
type plan struct {
	service string // etcd, zk, or one of stores
	members int    // servers
	length  time.Duration
	seed    uint64
	peers   bool // the stock libraries beside ours, under the same faults
	workers int
	session time.Duration
	only    string // faults whose names contain it
	dir     string
	logf    func(format string, args ...any)
}

// A scene is a run: servers, workers with their own links to them, and what was done to both.
type scene struct {
	plan
	cluster  *servers.Cluster
	group    []*servers.Member // the servers that the workers' links lead to
	spare    *servers.Member   // nil: none can take the place of another
	history  *etcdHistory      // etcd only
	stamps   *zkStamps         // ZooKeeper only
	register *register
	slots    []*slot
	disk     string // where a member's small disk is mounted
	random   *rand.Rand
	hired    int
	all      []*running

	recoveries []recovery
	pauses     []pause
	frozen     []pause
	killed     map[int]time.Duration
	forgot     bool    // a server that forgets everything was started again
	lost       []pause // when the service was away, before it came back with an earlier state
}

// A slot is a worker's place. When the worker is killed, another one takes it.
type slot struct {
	proxies []*faultproxy.Proxy // one for each server
	workers []*running
}

func (s *slot) each(do func(*running)) {
	for _, w := range s.workers {
		do(w)
	}
}

// running is one worker process.
type running struct {
	id      int
	process *servers.Process
	stdin   io.Closer
	journal string
	peers   bool
}

// trace is where its Observers write.
func (r *running) trace() string { return strings.TrimSuffix(r.journal, ".jsonl") + ".trace" }

// run does what the plan says and has the judge look at the outcome.
func run(p plan) (*verdict, *scene, error) {
	s := &scene{plan: p, random: newRandom(p.seed), killed: map[int]time.Duration{}}
	defer s.close()
	if err := s.open(); err != nil {
		return nil, s, err
	}
	time.Sleep(500 * time.Millisecond)
	if err := s.plague(time.Now().Add(p.length)); err != nil {
		return nil, s, err
	}
	e, err := s.finish()
	if err != nil {
		return nil, s, err
	}
	return judge(e), s, nil
}

func (s *scene) open() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := s.openService(ctx); err != nil {
		return err
	}
	if s.cluster != nil && s.group == nil {
		s.group = s.cluster.Members()
	}
	var err error
	if s.register, err = newRegister(); err != nil {
		return err
	}
	for range s.workers {
		slot := &slot{}
		for _, addr := range s.addresses() {
			p, err := faultproxy.New(addr)
			if err != nil {
				return err
			}
			slot.proxies = append(slot.proxies, p)
		}
		s.slots = append(s.slots, slot)
		if err := s.hire(slot); err != nil {
			return err
		}
	}
	return nil
}

// openService starts the servers, and whatever writes down what they do.
func (s *scene) openService(ctx context.Context) (err error) {
	switch {
	case s.isStore():
		return s.openStore(ctx)
	case s.service == "zk":
		s.cluster, err = servers.StartZooKeeper(ctx, s.dir, s.configuration()...)
	default:
		s.cluster, err = servers.StartEtcd(ctx, s.dir, s.configuration()...)
	}
	if err != nil {
		return err
	}
	if s.members > 1 {
		if err := s.giveSmallDisk(); err != nil {
			return err
		}
	}
	if s.service == "zk" {
		s.stamps, err = stampZooKeeper(ctx, s.cluster.Addrs())
	} else {
		s.history, err = followEtcd(s.cluster.Addrs())
	}
	return err
}

// configuration is, for sessions of 10 s, ZooKeeper's sample configuration and etcd's defaults. For shorter sessions, both
// are quicker in proportion. A ZooKeeper that hears nothing from the others goes on for five ticks, which is a session. It
// ends sessions at ticks, never early, so longer ticks would hide who believes for too long.
func (p plan) configuration() []servers.Option {
	return []servers.Option{servers.Members(p.members), servers.Links(), servers.Tick(p.tick()),
		servers.Config("initLimit=10", fmt.Sprintf("syncLimit=%d", syncLimit)), servers.ElectionTimeout(p.session / 10)}
}

const syncLimit = 5

func (p plan) tick() time.Duration { return min(2*time.Second, p.session/5) }

// stale is how old may be what a refused try was shown. On ZooKeeper it asks a leader that may have lost the others, and notices that
// only after syncLimit ticks, of which a busy machine may need twice as many.
func (p plan) stale() time.Duration {
	if p.service == "zk" {
		return 2 * syncLimit * p.tick()
	}
	return 0
}

// patience is how long those that still wait may take once all faults are healed and nobody else joins.
func (p plan) patience() time.Duration { return 30*time.Second + 5*p.session }

// mainLine is the line that recovery is measured by.
func (s *scene) mainLine() string { return "mutex" }

// hire starts the slot's worker, and a peer beside it if the plan says so.
func (s *scene) hire(slot *slot) error {
	slot.workers = nil
	for _, peers := range []bool{false, true} {
		if peers && !s.peers {
			continue
		}
		s.hired++
		w := &running{id: s.hired, peers: peers, journal: filepath.Join(s.dir, fmt.Sprintf("worker-%d.jsonl", s.hired))}
		j := job{Worker: w.id, Slot: slices.Index(s.slots, slot), Workers: s.workers, Service: s.service, Peers: peers, Register: s.register.listener.Addr().String(),
			Journal: w.journal, Trace: w.trace(), Session: s.session, Seed: s.seed + uint64(w.id)}
		for _, p := range slot.proxies {
			j.Servers = append(j.Servers, p.Addr())
		}
		if s.isStore() {
			j.URL = s.address(j.Servers)
		}
		text, err := json.Marshal(j)
		if err != nil {
			return err
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		out, err := os.Create(w.journal + ".log")
		if err != nil {
			return err
		}
		defer out.Close()
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), jobVariable+"="+string(text))
		cmd.Stdout, cmd.Stderr = out, out
		// We use a pipe of our own: exec's is closed by Wait.
		r, stdin, err := os.Pipe()
		if err != nil {
			return err
		}
		defer r.Close()
		cmd.Stdin, w.stdin = r, stdin
		if w.process, err = servers.StartProcess(cmd); err != nil {
			return err
		}
		slot.workers = append(slot.workers, w)
		s.all = append(s.all, w)
	}
	return nil
}

// finish lets everybody come to an end and gathers the evidence.
func (s *scene) finish() (*evidence, error) {
	e := &evidence{drained: mono()}
	for _, slot := range s.slots {
		slot.each(func(w *running) { _ = w.stdin.Close() })
	}
	deadline := time.After(s.patience())
	for _, slot := range s.slots {
		for _, w := range slot.workers {
			select {
			case <-w.process.Exited():
			case <-deadline:
				deadline = time.After(time.Millisecond)
				s.logf("worker %d (peer: %v) did not come to its end", w.id, w.peers)
			}
		}
	}
	// After this, nodes of sessions that are renewed still stand; those of the dead have had time to go.
	time.Sleep(2*s.session + time.Second)
	var err error
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if s.isStore() {
		e.unseen = true
		e.truth, err = s.remains(ctx)
	} else if s.history != nil {
		e.truth, err = s.history.finish(ctx)
		s.history = nil
	} else {
		s.stamps.close()
		acks := s.stamps.acks
		s.stamps = nil
		for _, m := range s.cluster.Members() {
			m.Kill()
		}
		var all []transaction
		if all, err = readTransactions(s.cluster); err == nil {
			e.truth = replay(all)
			e.truth.answered(acks)
			e.truth.order()
		}
	}
	if err != nil {
		return nil, err
	}
	for _, w := range s.all {
		events, err := readEvents(w.journal)
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		e.attempts = append(e.attempts, attempts(events)...)
	}
	if e.audit, err = s.audit(); err != nil {
		return nil, err
	}
	e.writes, e.pauses, e.frozen, e.killed, e.forgot = s.register.all(), s.pauses, s.frozen, s.killed, s.forgot
	e.stale = s.stale()
	return e, nil
}

// audit judges the traces of all workers, as a user would.
func (s *scene) audit() (*trace.Verdict, error) {
	var paths []string
	for _, w := range s.all {
		paths = append(paths, w.trace())
	}
	return auditAll(paths, s.lost)
}

func (s *scene) close() {
	for _, w := range s.all {
		w.process.Kill()
		_ = w.stdin.Close()
	}
	for _, slot := range s.slots {
		for _, p := range slot.proxies {
			p.Close()
		}
	}
	if s.register != nil {
		_ = s.register.listener.Close()
	}
	if s.cluster != nil {
		s.cluster.Close()
	}
	if s.history != nil {
		s.history.close()
	}
	if s.stamps != nil {
		s.stamps.close()
	}
	s.takeSmallDisk()
}
