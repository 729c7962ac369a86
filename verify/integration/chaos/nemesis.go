package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/servers"
)

// A fault is something that goes wrong for a while and is then healed.
type fault struct {
	name    string
	members int               // how many servers it needs at least
	when    func(*scene) bool // nil: always
	do      func(s *scene) (heal func() error, err error)
	lasts   func(s *scene) time.Duration
}

// Where a fault can be.
func served(s *scene) bool     { return s.cluster != nil }
func consensual(s *scene) bool { return !s.isStore() }

func about(d time.Duration) func(*scene) time.Duration {
	return func(s *scene) time.Duration { return d/2 + time.Duration(s.random.Int64N(int64(d))) }
}

func shorter(s *scene) time.Duration { return s.session/5 + s.part(s.session/5) }
func longer(s *scene) time.Duration  { return s.session*3/2 + s.part(s.session/2) }
func atOnce(*scene) time.Duration    { return 0 }

func (s *scene) part(d time.Duration) time.Duration { return time.Duration(s.random.Int64N(int64(d))) }

func (s *scene) any() *servers.Member {
	return s.group[s.random.IntN(len(s.group))]
}

func (s *scene) leader() (*servers.Member, error) {
	if s.isStore() { // they are equal
		return s.any(), nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.cluster.FindLeader(ctx)
}

func (s *scene) follower() (*servers.Member, error) {
	leader, err := s.leader()
	if err != nil {
		return nil, err
	}
	for {
		if m := s.any(); m != leader {
			return m, nil
		}
	}
}

func start(members ...*servers.Member) func() error {
	return func() error {
		for _, m := range members {
			if err := m.Launch(); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, m := range members {
			if err := m.Start(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

func killed(pick func(*scene) (*servers.Member, error)) func(*scene) (func() error, error) {
	return func(s *scene) (func() error, error) {
		m, err := pick(s)
		if err != nil {
			return nil, err
		}
		m.Kill()
		return func() error {
			s.forgot = s.forgot || s.store().forgets
			return start(m)()
		}, nil
	}
}

func frozen(pick func(*scene) (*servers.Member, error)) func(*scene) (func() error, error) {
	return func(s *scene) (func() error, error) {
		m, err := pick(s)
		if err != nil {
			return nil, err
		}
		from := mono()
		m.Freeze()
		return func() error {
			m.Thaw()
			s.frozen = append(s.frozen, pause{from: from, to: mono()})
			return nil
		}, nil
	}
}

// A server that is cut off from the others goes on talking to its clients.

// aloof returns the follower that most workers are connected to, and the leader that it follows. Asked for twice, the leader may be
// another one.
func (s *scene) aloof() (follower, leader *servers.Member, err error) {
	if leader, err = s.leader(); err != nil {
		return nil, nil, err
	}
	open := func(m *servers.Member) (n int) {
		for _, slot := range s.slots {
			n += slot.proxies[slices.Index(s.cluster.Members(), m)].Open()
		}
		return n
	}
	followers := slices.DeleteFunc(s.cluster.Members(), func(m *servers.Member) bool { return m == leader })
	return slices.MaxFunc(followers, func(a, b *servers.Member) int { return open(a) - open(b) }), leader, nil
}

// followerApart cuts a follower off from the leader, or from everybody.
func followerApart(s *scene) (func() error, error) {
	follower, leader, err := s.aloof()
	if err != nil {
		return nil, err
	}
	var from []*servers.Member
	if s.random.IntN(2) == 0 {
		from = append(from, leader)
	}
	return healed(s.cluster.Isolate(follower, from...)), nil
}

func leaderApart(s *scene) (func() error, error) {
	leader, err := s.leader()
	if err != nil {
		return nil, err
	}
	return healed(s.cluster.Isolate(leader)), nil
}

func healed(heal func()) func() error { return func() error { heal(); return nil } }

// someSlots returns one, or all.
func (s *scene) someSlots() []*slot {
	if s.random.IntN(2) == 0 {
		return s.slots
	}
	i := s.random.IntN(len(s.slots))
	return s.slots[i : i+1]
}

// linked does something to all connections of one worker, or of all.
func linked(do func(*faultproxy.Proxy)) func(*scene) (func() error, error) {
	return func(s *scene) (func() error, error) {
		slots := s.someSlots()
		for _, slot := range slots {
			for _, p := range slot.proxies {
				do(p)
			}
		}
		return func() error {
			for _, slot := range slots {
				for _, p := range slot.proxies {
					p.Heal()
				}
			}
			return nil
		}, nil
	}
}

func workerFrozen(s *scene) (func() error, error) {
	slot := s.slots[s.random.IntN(len(s.slots))]
	from := mono()
	slot.each(func(w *running) { w.process.Freeze() })
	return func() error {
		slot.each(func(w *running) {
			w.process.Thaw()
			s.pauses = append(s.pauses, pause{worker: w.id, from: from, to: mono()})
		})
		return nil
	}, nil
}

func workerKilled(s *scene) (func() error, error) {
	slot := s.slots[s.random.IntN(len(s.slots))]
	slot.each(func(w *running) {
		w.process.Kill()
		s.killed[w.id] = mono()
	})
	return func() error { return s.hire(slot) }, nil
}

var faults = []fault{
	{name: "kill -9 the leader", when: served, do: killed((*scene).leader), lasts: about(time.Second)},
	{name: "kill -9 a follower", members: 3, do: killed((*scene).follower), lasts: about(time.Second)},
	{name: "kill -9 all", members: 3, lasts: about(500 * time.Millisecond), do: func(s *scene) (func() error, error) {
		for _, m := range s.group {
			m.Kill()
		}
		return start(s.group...), nil
	}},
	{name: "quorum lost", members: 3, lasts: about(2 * time.Second), do: func(s *scene) (func() error, error) {
		a, b := s.group[0], s.group[1+s.random.IntN(2)]
		a.Kill()
		b.Kill()
		return start(a, b), nil
	}},
	{name: "rolling restart", members: 3, lasts: atOnce, do: func(s *scene) (func() error, error) {
		for _, m := range s.group {
			m.Terminate()
			if err := start(m)(); err != nil {
				return nil, err
			}
		}
		return func() error { return nil }, nil
	}},
	{name: "freeze the leader, short", when: served, do: frozen((*scene).leader), lasts: shorter},
	{name: "freeze the leader, long", when: served, do: frozen((*scene).leader), lasts: longer},
	{name: "freeze a follower, long", members: 3, do: frozen((*scene).follower), lasts: longer},
	{name: "compaction", when: func(s *scene) bool { return s.history != nil }, lasts: atOnce, do: func(s *scene) (func() error, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return func() error { return nil }, s.history.compact(ctx)
	}},
	{name: "a follower apart, short", when: consensual, members: 3, do: followerApart, lasts: shorter},
	{name: "a follower apart, long", when: consensual, members: 3, do: followerApart, lasts: longer},
	{name: "the leader apart, short", when: consensual, members: 3, do: leaderApart, lasts: shorter},
	{name: "the leader apart, long", when: consensual, members: 3, do: leaderApart, lasts: longer},
	{name: "a link held one way, short", when: consensual, members: 3, do: oneWay, lasts: shorter},
	{name: "a link held one way, long", when: consensual, members: 3, do: oneWay, lasts: longer},
	{name: "a link held one way, then the other", when: consensual, members: 3, do: oneWayThenTheOther, lasts: longer},
	{name: "the leader wakes apart", when: consensual, members: 3, do: leaderWakesApart, lasts: longer},
	{name: "somebody else writes to nodes", when: consensual, do: meddled, lasts: about(2 * time.Second)},
	{name: "a member emptied", when: voting, do: emptied, lasts: about(2 * time.Second)},
	{name: "a member replaced", when: voting, do: replaced, lasts: about(2 * time.Second)},
	{name: "appendonly switched off", when: func(s *scene) bool { return s.service == "redis" || voting(s) }, do: appendNothing, lasts: longer},
	{name: "a clock is set", when: func(s *scene) bool { return s.hasClock() }, do: clockSet, lasts: longer},
	{name: "a backup is put back", when: restorable, do: restored, lasts: longer},
	{name: "disk full on one member", members: 3, when: func(s *scene) bool { return s.disk != "" }, lasts: longer, do: fillDisk},
}

// Faults of links and workers leave all servers alone.
var faultsAside = []fault{
	{name: "cut", when: served, do: linked((*faultproxy.Proxy).Cut), lasts: atOnce},
	{name: "blackhole, short", when: served, do: linked((*faultproxy.Proxy).Blackhole), lasts: shorter},
	{name: "blackhole, long", when: served, do: linked((*faultproxy.Proxy).Blackhole), lasts: longer},
	{name: "blackhole to the server", when: served, do: linked(func(p *faultproxy.Proxy) { p.Stall(faultproxy.ToServer) }), lasts: longer},
	{name: "blackhole to the client", when: served, do: linked(func(p *faultproxy.Proxy) { p.Stall(faultproxy.ToClient) }), lasts: longer},
	{name: "latency", when: served, do: linked(func(p *faultproxy.Proxy) { p.Delay(60 * time.Millisecond) }), lasts: about(time.Second)},
	{name: "stall and cut", when: served, lasts: atOnce, do: func(s *scene) (func() error, error) {
		heal, err := linked(func(p *faultproxy.Proxy) { p.Stall(faultproxy.ToClient) })(s)
		if err != nil {
			return nil, err
		}
		time.Sleep(s.part(200 * time.Millisecond))
		for _, slot := range s.slots {
			for _, p := range slot.proxies {
				p.Cut()
			}
		}
		return heal, nil
	}},
	{name: "a name leads to another server", when: voting, do: astray, lasts: longer},
	{name: "freeze a worker, short", do: workerFrozen, lasts: shorter},
	{name: "freeze a worker, long", do: workerFrozen, lasts: longer},
	{name: "kill -9 a worker", do: workerKilled, lasts: about(300 * time.Millisecond)},
}

// recovery tells how things went on after one fault.
type recovery struct {
	fault  string
	begun  time.Duration
	healed time.Duration
	// again is how long after the heal the first grant in the mutex's line came.
	again time.Duration
	// nobody is set if none came.
	nobody bool
}

// plague makes faults happen until the time is over, each kind once before any comes twice.
func (s *scene) plague(until time.Time) error {
	var deck []fault
	for time.Now().Before(until) {
		if len(deck) == 0 {
			for _, f := range slices.Concat(faults, faultsAside) {
				if strings.Contains(f.name, s.only) && s.has(f) {
					deck = append(deck, f)
				}
			}
			if len(deck) == 0 {
				return fmt.Errorf("no such fault: %q", s.only)
			}
			s.random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		f := deck[0]
		deck = deck[1:]
		if err := s.strike(f); err != nil {
			return err
		}
		if s.recoveries[len(s.recoveries)-1].nobody {
			return nil // the judge reports it
		}
		time.Sleep(100*time.Millisecond + s.part(300*time.Millisecond))
	}
	return nil
}

// has reports whether a fault can happen there.
func (s *scene) has(f fault) bool {
	return f.members <= len(s.group) && (f.when == nil || f.when(s))
}

// strike makes a fault happen and heals it, and waits until somebody is granted again.
func (s *scene) strike(f fault) error {
	r := recovery{fault: f.name, begun: mono()}
	lasts := f.lasts(s)
	heal, err := f.do(s)
	if err == nil {
		time.Sleep(lasts)
		err = heal()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	r.healed = mono()
	line := s.mainLine()
	for r.again == 0 && !r.nobody {
		if first := s.register.firstAfter(line, r.healed); first > 0 {
			r.again = first - r.healed
		} else if mono()-r.healed > s.patience() {
			r.nobody = true
		} else {
			time.Sleep(2 * time.Millisecond)
		}
	}
	s.recoveries = append(s.recoveries, r)
	s.logf("%-36s lasted %6v, a grant again after %v", f.name, (r.healed - r.begun).Round(time.Millisecond), r.again.Round(time.Millisecond))
	return nil
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }
