package quorum

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

func remove(t *testing.T, q *Store, it register.Item) {
	t.Helper()
	if _, err := q.Swap(redistest.Within(t, 10*time.Second), register.Swap{Key: it.Key, Old: it.Version}); err != nil {
		t.Fatal(err)
	}
}

// comesAndGoes makes a register and removes it. Tests collect what has gone a moment ago, so one server may have forgotten it while
// another has not: a swap that comes then may be left open.
func comesAndGoes(t *testing.T, q *Store, key string) {
	t.Helper()
	storecheck.Eventually(t, "a register to come and go", func() bool {
		ctx := redistest.Within(t, 10*time.Second)
		it, err := q.Read(ctx, key)
		if err == nil && it.Version.IsZero() {
			it, err = q.Swap(ctx, register.Swap{Key: key, Next: register.NewVersion(), Value: []byte("x")})
		}
		if err == nil {
			_, err = q.Swap(ctx, register.Swap{Key: key, Old: it.Version})
		}
		return err == nil
	})
}

// collected has everything forgotten that has gone, however short a time ago.
func collected(t *testing.T, q *Store) (n int) {
	t.Helper()
	storecheck.Eventually(t, "all to vote", func() bool { return voters(q) == len(q.all) })
	n, err := q.collectOnce(redistest.Within(t, 20*time.Second), 0)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRegistersThatHaveGoneAreForgotten(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3))
	q := openOn(t, cluster)
	stays := redistest.Put(t, q, "stays", "x")
	for i := range 1200 { // more than a page
		remove(t, q, redistest.Put(t, q, fmt.Sprintf("session/%d", i), "x"))
	}
	if n, err := q.collectOnce(redistest.Within(t, 20*time.Second), collectAfter); err != nil || n != 0 {
		t.Errorf("%d were forgotten at once, %v", n, err)
	}
	storecheck.Eventually(t, "all to be forgotten", func() bool { // the last acceptor may be a moment behind
		collected(t, q)
		for _, a := range cluster.Addrs() {
			if redistest.CLI(t, a, "ZCARD", "turnwise-quorum.keys") != "2" { // the mark and what stays
				return false
			}
		}
		return true
	})
	if it := redistest.Read(t, q, "stays"); it.Version != stays.Version {
		t.Errorf("what stays is %v", it)
	}
	other := openOn(t, cluster)
	for range 3 {
		it := redistest.Put(t, other, "session/7", "again")
		if got := redistest.Read(t, q, "session/7"); got.Version != it.Version {
			t.Errorf("there stands %v", got)
		}
		remove(t, q, it)
	}
}

// Two have forgotten a register that has gone, and the third has not. What is made there anew counts for more than what the third
// has, by whoever makes it.
func TestWhatHalfHaveForgottenIsMadeAnewAboveIt(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3), servers.AppendOnly("always"))
	q := openOn(t, cluster)
	for range 20 { // its ballots are high
		remove(t, q, redistest.Put(t, q, "r", "old"))
	}
	storecheck.Eventually(t, "all to vote", func() bool { return voters(q) == 3 })
	storecheck.Eventually(t, "two to forget", func() bool {
		r, forgot := q.roster.Load(), 0
		for _, a := range q.all[:2] {
			gone, _, err := a.gone(t.Context(), r, 0)
			if err == nil && gone["r"] != "" && a.forget(t.Context(), r, "r", gone["r"], 0) == nil {
				forgot++
			}
			if redistest.CLI(t, a.Address, "EXISTS", "turnwise-quorum:r") == "0" {
				forgot = max(forgot, 1)
			} else {
				return false
			}
		}
		return forgot > 0
	})
	if redistest.CLI(t, q.all[2].Address, "EXISTS", "turnwise-quorum:r") != "1" {
		t.Fatal("the third has forgotten, too, so this shows nothing")
	}
	cluster.Member(2).Kill()
	it := redistest.Put(t, openOn(t, cluster), "r", "new")
	cluster.Member(2).Restart(t)
	cluster.Member(0).Kill()
	if got := redistest.Read(t, openOn(t, cluster), "r"); got.Version != it.Version {
		t.Errorf("there stands %q", got.Value)
	}
}

// Whoever is filled knows below what nobody may begin.
func TestAServerThatIsFilledGetsTheFloor(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3))
	q := openOn(t, cluster)
	for range 20 {
		remove(t, q, redistest.Put(t, q, "r", "old"))
	}
	storecheck.Eventually(t, "it to be forgotten", func() bool {
		return collected(t, q) > 0 || redistest.CLI(t, q.all[0].Address, "GET", "turnwise-quorum.floor") != ""
	})
	redistest.CLI(t, cluster.Addrs()[2], "FLUSHALL")
	storecheck.Eventually(t, "two votes", func() bool { return voters(q) == 2 })
	if err := q.Heal(redistest.Within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	a, c := redistest.CLI(t, q.all[0].Address, "GET", "turnwise-quorum.floor"), redistest.CLI(t, q.all[2].Address, "GET", "turnwise-quorum.floor")
	if strings.TrimSpace(c) < strings.TrimSpace(a) || len(strings.TrimSpace(c)) != ballotSize {
		t.Errorf("the floor is %q, and of another %q", c, a)
	}
}

// Some have gone while one server was away, and one was forgotten by one server only. So they do not say the same, and nobody
// asks for these registers any more.
func TestWhatTheyDoNotAgreeOnIsForgottenInTheEnd(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3), servers.AppendOnly("always"))
	q := openOn(t, cluster)
	storecheck.Eventually(t, "all to vote", func() bool { return voters(q) == 3 })
	var all []register.Item
	for i := range 20 {
		all = append(all, redistest.Put(t, q, fmt.Sprintf("session/%d", i), "x"))
	}
	storecheck.Eventually(t, "the third to have them", func() bool {
		return redistest.CLI(t, cluster.Addrs()[2], "ZCARD", "turnwise-quorum.keys") == "21"
	})
	cluster.Member(2).Kill()
	for _, it := range all {
		remove(t, q, it)
	}
	cluster.Member(2).Restart(t)
	storecheck.Eventually(t, "all to be forgotten", func() bool {
		collected(t, q)
		for _, a := range cluster.Addrs() {
			if redistest.CLI(t, a, "ZCARD", "turnwise-quorum.keys") != "1" { // the mark
				return false
			}
		}
		return true
	})
}

// A process that asks for nothing else has the turn to collect. The group has had another roster meanwhile, and a server voted again
// after that was looked at.
func TestAProcessThatIsIdleCollects(t *testing.T) {
	all := servers.Redis(t, servers.Members(4)).Addrs()
	openNamed(t, all[:3]...)
	idle, more := openNamed(t, all...), openNamed(t, all...)
	storecheck.Eventually(t, "three votes", func() bool { return voters(idle) == 3 })
	reform(t, more)
	time.Sleep(1100 * time.Millisecond) // they are looked at once a second
	comesAndGoes(t, more, "r")
	for range 2 {
		storecheck.Eventually(t, "all to have it", func() bool { return voters(more) == 4 })
		storecheck.Eventually(t, "it to be forgotten", func() bool {
			time.Sleep(time.Second)
			n, _ := idle.collectOnce(redistest.Within(t, 10*time.Second), 0)
			return n > 0
		})
		idle.all[3].seat.leave()
		comesAndGoes(t, more, "r")
	}
}

// Where all processes are as short-lived as a command, nobody lives for ten minutes.
func TestAProcessThatLivesForSecondsCollects(t *testing.T) {
	t.Parallel()
	all := servers.Redis(t, servers.Members(3)).Addrs()
	openNamed(t, all...)
	storecheck.Eventually(t, "somebody to have the turn to collect", func() bool {
		return slices.ContainsFunc(all, func(at string) bool { return strings.Contains(redistest.CLI(t, at, "KEYS", "*.turn:"), ".turn:") })
	})
}

// Somebody was promised a register that does not exist, and came to an end.
func TestWhatWasOnlyPromisedIsForgotten(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3))
	q := openOn(t, cluster)
	for i := range 5 {
		v := q.all[i%3].ask(t.Context(), q.roster.Load(), prepareScript, fmt.Sprintf("promised/%d", i), newBallot(1000).String())
		if v.err != nil || v.refused {
			t.Fatalf("%+v", v)
		}
	}
	storecheck.Eventually(t, "all to be forgotten", func() bool {
		collected(t, q)
		for _, a := range cluster.Addrs() {
			if redistest.CLI(t, a, "ZCARD", "turnwise-quorum.keys") != "1" { // the mark
				return false
			}
		}
		return true
	})
	redistest.Put(t, q, "promised/1", "x")
}

// More have gone than are forgotten at a time. If the rest were left for the next time, they could become more and more.
func TestAllThatHasGoneIsForgotten(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3))
	q := openOn(t, cluster)
	remove(t, q, redistest.Put(t, q, "r", "x"))
	storecheck.Eventually(t, "all to say the same", func() bool {
		all := make(map[string]bool)
		for _, a := range cluster.Addrs() {
			all[redistest.CLI(t, a, "GETRANGE", "turnwise-quorum:r", "32", "63")] = true
		}
		return len(all) == 1
	})
	for _, a := range cluster.Addrs() {
		redistest.CLI(t, a, "EVAL", `
			local s = redis.call('GET', 'turnwise-quorum:r')
			for i = 1, 10500 do
				redis.call('SET', 'turnwise-quorum:session/' .. i, s)
				redis.call('ZADD', 'turnwise-quorum.keys', 0, 'turnwise-quorum:session/' .. i)
			end`, "0")
	}
	storecheck.Eventually(t, "all to vote", func() bool { return voters(q) == 3 })
	if err := q.collectAll(redistest.Within(t, 5*time.Minute), 0); err != nil {
		t.Fatal(err)
	}
	if n := redistest.CLI(t, cluster.Addrs()[0], "ZCARD", "turnwise-quorum.keys"); n != "1" {
		t.Errorf("%s are left", n)
	}
}
