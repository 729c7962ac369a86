package etcd

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/verify/servers"
)

// A frozen member keeps its connections, and requests still go to it in turn. (Of 24 stock watches there, 11 missed the
// deletion for 40 s.)
func TestOneFrozenMemberOfThreeStopsNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	for _, which := range []string{"follower", "leader"} {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			cluster := servers.Etcd(t, servers.Members(3))
			frozen := cluster.Leader(t)
			if which == "follower" {
				i := slices.IndexFunc(cluster.Members(), func(m *servers.Member) bool { return m != frozen })
				frozen = cluster.Member(i)
			}
			a := open(t, connectLink(t, cluster.Addrs()...), WithTTL(5*time.Second))
			b := open(t, connectLink(t, cluster.Addrs()...), WithTTL(5*time.Second))
			head, _ := join(t, a, entry("frozen", "lock"))
			var waiting []<-chan error
			var places []driver.Place
			for range 5 {
				me, ahead := join(t, b, entry("frozen", "lock"))
				places, waiting = append(places, me), append(waiting, waiter(t, me, ahead))
			}
			time.Sleep(100 * time.Millisecond)
			frozen.Freeze()
			defer frozen.Thaw()

			var slowest time.Duration
			step := func(what string, f func()) {
				begun := time.Now()
				f()
				took := time.Since(begun)
				slowest = max(slowest, took)
				if took > 12*time.Second {
					t.Errorf("%s took %v", what, took)
				}
			}
			step("leave", func() { leave(t, head, true) })
			for i, c := range waiting {
				step(fmt.Sprint("turn ", i), func() { answers(t, c, 15*time.Second, nil, "await") })
				step("leave", func() { leave(t, places[i], true) })
			}
			for range 10 {
				step("join and leave", func() {
					me, _ := join(t, a, entry("frozen too", "lock"))
					leave(t, me, true)
				})
			}
			t.Logf("the slowest step took %v", slowest)
			for _, s := range []*session{a, b} {
				if s.life.Over() || time.Now().After(s.Deadline()) {
					t.Errorf("a session was not kept: deadline %v ago", time.Since(s.Deadline()))
				}
			}
		})
	}
}

// A lagging member answers reads at a later revision with "future revision", and opens watches in the past.
func TestTurnsRunOnThroughFailOver(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	cluster := servers.Etcd(t, servers.Members(3))
	a := open(t, connectLink(t, cluster.Addrs()...), WithTTL(10*time.Second))
	b := open(t, connectLink(t, cluster.Addrs()...), WithTTL(10*time.Second))
	ctx := within(t, 2*time.Minute)
	stop := time.Now().Add(8 * time.Second)
	type result struct {
		turns int
		err   error
	}
	results := make(chan result, 2)
	for _, s := range []*session{a, b} {
		go func() {
			var r result
			for time.Now().Before(stop) && r.err == nil {
				var me driver.Place
				var ahead []driver.Node
				if me, ahead, r.err = s.Join(ctx, entry("fail-over", "lock")); r.err != nil {
					break
				}
				if _, r.err = turn(ctx, me, ahead); r.err == nil {
					r.err = me.Leave(ctx, true)
					r.turns++
				}
			}
			results <- r
		}()
	}
	for range 2 {
		time.Sleep(2 * time.Second)
		leader := cluster.Leader(t)
		leader.Kill()
		time.Sleep(time.Second)
		if err := leader.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		r := <-results
		t.Logf("%d turns", r.turns)
		if r.err != nil || r.turns < 20 {
			t.Errorf("%d turns, %v", r.turns, r.err)
		}
	}
}
