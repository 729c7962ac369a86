package main

import (
	"fmt"
	"slices"
	"time"
)

// Work is a task that yields figures for each contestant that can do it.
type Work struct {
	Name  string // as the flag -work has it
	Title string
	About string
	Unit  string // what one turn is
	Cases []Case
	Disk  bool      // the servers wait for the disk at every write
	On    []Service // clusters unless it says otherwise

	// Special is for what is not a scenario.
	Special func(b *bench, w *Work) ([]Result, error)
}

func (w *Work) on(s Service) bool {
	if w.On == nil {
		return slices.Contains(clusters, s)
	}
	return slices.Contains(w.On, s)
}

// place returns where the rows of a case stand.
func (w *Work) place(name string) int {
	return slices.IndexFunc(w.Cases, func(c Case) bool { return c.Name == name })
}

// Case is one row of a work.
type Case struct {
	Name     string
	Scenario Scenario
	Kinds    []Kind // contestants must know these
	Bare     bool   // the bare writes take part too
	Together bool   // turnwise takes part a second time, with goroutines that share a place in line
	Skip     []string
	Count    bool // also run once through a proxy, for the bytes
	Rounds   int  // 0: as many as the flag says
}

// size makes works small for the smoke test.
type size struct {
	warm, window time.Duration
	waiters      []int
	contenders   []int
	readers      int
	footprint    int
	idle         int
	idleFor      time.Duration
	waitFor      time.Duration
	lines        int
	storeLines   int
	semaphores   [][2]int // permits, clients
	goroutines   int
	members      int
}

var full = size{
	warm: 300 * time.Millisecond, window: time.Second,
	waiters: []int{2, 100, 1000, 4000}, contenders: []int{2, 16, 64}, readers: 500, footprint: 10_000, idle: 100, idleFor: 20 * time.Second, waitFor: time.Minute, lines: 1000, storeLines: 64,
	semaphores: [][2]int{{1, 64}, {8, 64}, {100, 500}}, goroutines: 64, members: 1000,
}

var small = size{
	warm: 50 * time.Millisecond, window: 300 * time.Millisecond,
	waiters: []int{2, 20}, contenders: []int{2, 8}, readers: 20, footprint: 100, idle: 5, idleFor: time.Second, waitFor: time.Second, lines: 20, storeLines: 20,
	semaphores: [][2]int{{2, 8}}, goroutines: 8, members: 20,
}

func (s size) turns(sc Scenario) Scenario {
	sc.Shape, sc.Warm, sc.Window = Turns, s.warm, s.window
	return sc
}

func (s size) uncontended() Case {
	return Case{Name: "1 client", Bare: true, Kinds: []Kind{Lock}, Scenario: s.turns(Scenario{Kind: Lock, Clients: 1})}
}

func (s size) handOff(n int) Case {
	return Case{Name: fmt.Sprintf("%d contenders", n), Kinds: []Kind{Lock}, Scenario: s.turns(Scenario{Kind: Lock, Clients: n})}
}

func works(s size) []*Work {
	one := &Work{Name: "uncontended", Title: "Uncontended acquire and release", Unit: "acquire and release", Cases: []Case{s.uncontended()},
		About: "One client, one line, nobody else. The bare writes are the limit: a create and a delete, or a put and a delete, through the same client library and without any lock."}
	two := &Work{Name: "handoff", Title: "Hand-off between contenders", Unit: "turn",
		About: "Each contender has a connection and a session of its own, and asks for the line again as soon as it has let go. The figure is the elapsed time divided by the turns of all."}
	for _, n := range s.contenders {
		two.Cases = append(two.Cases, s.handOff(n))
	}
	three := drain(s)
	four := &Work{Name: "lines", Title: "Many lines from one client", Unit: "acquire and release",
		About: "One connection, and 64 workers that go round a thousand lines: it shows who can use a connection for more than one thing at a time.",
		Cases: []Case{{Name: fmt.Sprintf("%d lines, 64 workers", s.lines), Bare: true, Kinds: []Kind{Lock},
			Scenario: s.turns(Scenario{Kind: Lock, Clients: 1, Workers: 64, Lines: s.lines})}}}
	five := &Work{Name: "rwlock", Title: "Read/write lock", Unit: "turn",
		About: "Sixteen clients take turns in one line. In the last row that many readers hold and a writer waits; all readers let go at once, and the time is until the writer is in."}
	for _, reads := range []int{90, 50, 10} {
		five.Cases = append(five.Cases, Case{Name: fmt.Sprintf("%d %% reads, 16 clients", reads), Kinds: []Kind{Read, Write},
			Scenario: s.turns(Scenario{Kind: Write, Clients: 16, Reads: reads})})
	}
	five.Cases = append(five.Cases, Case{Name: fmt.Sprintf("a writer behind %d readers", s.readers), Kinds: []Kind{Read, Write},
		Scenario: Scenario{Shape: Crowd, Kind: Write, Clients: 1, Workers: s.readers}})
	six := semaphores(s)
	seven := &Work{Name: "failover", Title: "A leader's end", Unit: "change of leader", Special: failover,
		About: "The leading process is killed (kill -9); the time is from the kill until the next one leads. The session timeout is 2 s everywhere. Beside it, the time after a clean resignation."}
	eight := &Work{Name: "footprint", Title: "What a waiter takes", Unit: "waiter", Special: func(b *bench, w *Work) ([]Result, error) { return footprint(b, w, s.footprint) },
		About: "That many wait in one process on one connection, in lines of ten. The bare row is the client library's own share: a goroutine, a node and a watch for each waiter."}
	sleepers := &Work{Name: "idle", Title: "What a session costs the service", Unit: "session", On: slices.Concat(clusters, stores),
		Special: func(b *bench, w *Work) ([]Result, error) { return idle(b, w, s.idleFor, s.idle) },
		About:   "That many sessions of 10 s, each on a connection of its own, hold a line each and do nothing else. For each of them, what the server's processes use of a processor in a second, and the memory that they take."}
	patient := &Work{Name: "waiting", Title: "What waiting costs a store", Unit: "client", On: stores,
		Special: func(b *bench, w *Work) ([]Result, error) { return waiting(b, w, 10, s.waitFor) },
		About:   "Ten clients with sessions of 10 s, each with a store of its own. One holds a line, nine wait for it, and nothing happens. What they ask for in a minute, all together. On files the kernel tells who lives, so nothing is renewed; MariaDB and memcached tell nobody of a turn, so who waits asks. On Kubernetes, where who only waits is seldom renewed, it writes far less: see [kubernetes.md](kubernetes.md)."}
	crowd := &Work{Name: "group", Title: "Who watches a group", Unit: "change", On: slices.Concat(clusters, stores),
		Special: func(b *bench, w *Work) ([]Result, error) { return membership(b, w, 10, s.members) },
		About:   "So many members, and ten who watch, on a connection each. The time is from when one more joins, or leaves, until all ten have been told who is there now. Each reads the whole group again: that is what grows with the members. ZooKeeper is asked for their names and for what is new. MariaDB and memcached tell nobody, so who watches asks, the longer the line the more seldom."}
	disk := &Work{Name: "disk", Title: "With the disk", Unit: "turn", Disk: true,
		About: "The first two works again, on servers that wait for the disk at every write, as they do in production.",
		Cases: []Case{s.uncontended(), s.handOff(2)}}
	nine := onStores(s, three.Cases)
	told := &Work{Name: "observed", Title: "What observers cost", Unit: "acquire and release", On: []Service{ZooKeeper, Etcd, Redis, Postgres, Files}, Special: observed,
		About: "One client, one line, nobody else; and somebody is told of each turn. Spans go to a processor that collects them, and from there nowhere. A client tells its observers on a goroutine of its own, and news in quick succession together, so on a machine with a processor to spare hardly anything of it is on the way of a turn: the medians lie within the spread of the rounds. On files, where a turn makes no request, they cost 6 to 24 µs, of 63 µs.",
		Cases: []Case{s.uncontended()}}
	return []*Work{one, two, three, four, five, six, seven, eight, sleepers, patient, crowd, disk, nine, together(s), told}
}

func together(s size) *Work {
	w := &Work{Name: "together", Title: "Goroutines of one process", Unit: "turn", On: slices.Concat(clusters, stores),
		About: "Goroutines that share a connection and a session ask for one line again and again. `turnwise, Together` has the option Together(10 ms): they take turns in one place, and the service is asked for a few hundred turns at once. In the last row readers of one process do."}
	for _, c := range []struct {
		name             string
		clients, workers int
		kind             Kind
	}{
		{"1 goroutine", 1, 1, Lock},
		{fmt.Sprintf("%d goroutines", s.goroutines), 1, s.goroutines, Lock},
		{fmt.Sprintf("4 processes x %d", s.goroutines/4), 4, s.goroutines / 4, Lock},
		{fmt.Sprintf("%d readers", s.goroutines), 1, s.goroutines, Read},
	} {
		w.Cases = append(w.Cases, Case{Name: c.name, Kinds: []Kind{c.kind}, Together: true, Rounds: 3,
			Scenario: s.turns(Scenario{Kind: c.kind, Clients: c.clients, Workers: c.workers})})
	}
	return w
}

func drain(s size) *Work {
	w := &Work{Name: "drain", Title: "A queue drained", Unit: "hand-off",
		About: "That many wait on one connection; then the holder lets go, and each lets go as soon as it holds. Requests are those that reached the server; bytes are those that went both ways in a separate run through a proxy."}
	for _, n := range s.waiters {
		c := Case{Name: fmt.Sprintf("%d waiters", n), Kinds: []Kind{Lock}, Count: true, Rounds: 3,
			Scenario: Scenario{Shape: Drain, Kind: Lock, Clients: 1, Workers: n}}
		if n <= 20 { // a few hand-offs do not take long
			c.Rounds = 9
		}
		if n > 1000 {
			c.Skip = []string{"Kazoo", "concurrency.Election"}
		}
		w.Cases = append(w.Cases, c)
	}
	return w
}

func semaphores(s size) *Work {
	w := &Work{Name: "semaphore", Title: "Semaphore", Unit: "turn",
		About: "Each client takes one permit, lets it go and asks again. Wake-ups are waiters of turnwise that looked again."}
	for _, n := range s.semaphores {
		c := Case{Name: fmt.Sprintf("%d permits, %d clients", n[0], n[1]), Kinds: []Kind{Permit}, Rounds: 3,
			Scenario: s.turns(Scenario{Kind: Permit, Permits: int64(n[0]), Clients: n[1]})}
		c.Scenario.Warm, c.Scenario.Window = 2*s.warm, 2*s.window
		if n[1] > 100 {
			c.Scenario.Warm, c.Scenario.Window = 5*s.warm, 4*s.window
			c.Skip = []string{"Kazoo"} // a thousand Python threads
		}
		w.Cases = append(w.Cases, c)
	}
	return w
}

// onStores also has the cases of a queue drained, of which waiters has the names and sizes.
func onStores(s size, waiters []Case) *Work {
	w := &Work{Name: "stores", Title: "On files, Redis and databases", Unit: "turn", On: stores,
		About: "The same on stores that can compare and swap, beside what people use there. Contenders have a connection and a session of their own; processes are contenders that share no memory, either. `To another` are the turns a second that went to somebody else than had the one before; the longest wait and the shares are of single contenders, in one round.",
		Cases: []Case{s.uncontended(), s.handOff(s.contenders[0]), s.handOff(s.contenders[1]), {Name: fmt.Sprintf("%d processes", s.contenders[1]), Kinds: []Kind{Lock},
			Scenario: s.turns(Scenario{Kind: Lock, Clients: s.contenders[1], Apart: true})}}}
	for _, c := range waiters[1:] {
		c.Count = false
		w.Cases = append(w.Cases, c)
	}
	w.Cases = append(w.Cases, Case{Name: fmt.Sprintf("%d lines, 64 workers", s.storeLines), Kinds: []Kind{Lock},
		Scenario: s.turns(Scenario{Kind: Lock, Clients: 1, Workers: 64, Lines: s.storeLines})})
	return w
}
