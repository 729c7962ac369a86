package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

// keyOf is where a register stands on each server.
func keyOf(q *Store, key string) string { return q.root + key }

// spoilt writes to one key on all servers, as somebody may who has a right on that one.
func spoilt(t *testing.T, cluster *servers.Cluster, key string, commands ...[]string) {
	t.Helper()
	for _, a := range cluster.Addrs() {
		redistest.CLI(t, a, "ACL", "SETUSER", "mallory", "on", "nopass", "~"+key, "+@all", "-@dangerous")
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{a}, Username: "mallory", DisableCache: true, ForceSingleClient: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range commands {
			if err := c.Do(redistest.Within(t, 10*time.Second), c.B().Arbitrary(command...).Build()).Error(); err != nil {
				t.Errorf("%.60q: %v", command, err)
			}
		}
		c.Close()
	}
}

// Whoever may write to one key on all servers keeps nobody from listing the others, nor from having what has gone
// forgotten.
func TestAKeyThatIsNoRegisterHarmsNoOther(t *testing.T) {
	for name, value := range map[string]string{
		"no ballot, but a time":      strings.Repeat("x", timeAt) + "0000000000000001" + strings.Repeat("x", 400),
		"an impossible ballot":       strings.Repeat("9", timeAt) + "0000000000000001" + strings.Repeat("\x00", 400),
		"short, and no numbers":      strings.Repeat("x", timeAt) + "xxxxxxxxxxxxxxxx" + "\x01\x01\x01\x01\x01\x01\x01\x01" + strings.Repeat("\x00", 8),
		"content that ends too soon": strings.Repeat("0", 15) + "2" + strings.Repeat("1", 16) + strings.Repeat("0", 15) + "1" + strings.Repeat("1", 16) + "0000000000000001" + strings.Repeat("\x01", 100),
		"nothing":                    "",
		"a list":                     "a list",
	} {
		t.Run(name, func(t *testing.T) {
			cluster := servers.Redis(t, servers.Members(3))
			q := openOn(t, cluster)
			redistest.Put(t, q, "line/orders", "x")
			redistest.Put(t, q, "line/spoilt", "x")
			gone := redistest.Put(t, q, "session/gone", "x")
			remove(t, q, gone)
			storecheck.Eventually(t, "all have it", func() bool {
				return !slices.ContainsFunc(cluster.Addrs(), func(a string) bool { return redistest.CLI(t, a, "EXISTS", keyOf(q, "line/spoilt")) != "1" })
			})
			k := keyOf(q, "line/spoilt")
			if value == "a list" {
				spoilt(t, cluster, k, []string{"DEL", k}, []string{"LPUSH", k, "x"})
			} else {
				spoilt(t, cluster, k, []string{"SET", k, value})
			}
			var keys []string
			err := q.List(redistest.Within(t, 10*time.Second), "line/", func(it register.Item) bool { keys = append(keys, it.Key); return true })
			if err != nil || !slices.Contains(keys, "line/orders") {
				t.Errorf("listed: %q, %v", keys, err)
			}
			storecheck.Eventually(t, "all to vote", func() bool { return voters(q) == len(q.all) })
			if _, err := q.collectOnce(redistest.Within(t, 20*time.Second), 0); err != nil {
				t.Errorf("what has gone: %v", err)
			}
			healsBeside(t, cluster, q)
		})
	}
}

// healsBeside has a server forget, and be healed: it votes again, and knows the other registers.
func healsBeside(t *testing.T, cluster *servers.Cluster, q *Store) {
	t.Helper()
	forgetsAndIsHealed(t, cluster, q)
	cluster.Member(1).Freeze()
	defer cluster.Member(1).Thaw()
	storecheck.Eventually(t, "the other register, from the one that was healed and another", func() bool {
		it, err := q.Read(redistest.Within(t, 10*time.Second), "line/orders")
		return err == nil && string(it.Value) == "x"
	})
}

func forgetsAndIsHealed(t *testing.T, cluster *servers.Cluster, q *Store) {
	t.Helper()
	redistest.CLI(t, cluster.Addrs()[0], "FLUSHALL")
	storecheck.Eventually(t, "one to have forgotten", func() bool {
		redistest.Read(t, q, "nothing")
		return voters(q) == len(q.all)-1
	})
	if err := q.Heal(redistest.Within(t, 20*time.Second)); err != nil {
		t.Fatalf("healed: %v", err)
	}
	storecheck.Eventually(t, "all to vote again", func() bool { return voters(q) == len(q.all) })
}

// The last server has missed what the others agreed to. One of them has something strange there by now, and one has forgotten all. Of
// three servers, nobody knows then what was there, so nobody says that it is what the last one knows. Of five, the others know.
func TestWhatOnlyAStrangeServerKnewIsNotTakenForNothing(t *testing.T) {
	for n, want := range map[int]string{3: "", 5: "two"} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			cluster := servers.Redis(t, servers.Members(n), servers.AppendOnly("always"))
			q := openOn(t, cluster)
			redistest.Put(t, q, "line/a", "one")
			k := keyOf(q, "line/a")
			storecheck.Eventually(t, "all have it", func() bool {
				return !slices.ContainsFunc(cluster.Addrs(), func(a string) bool { return redistest.CLI(t, a, "EXISTS", k) != "1" })
			})
			cluster.Member(n - 1).Kill()
			redistest.Put(t, q, "line/a", "two")
			cluster.Member(n - 1).Restart(t)
			redistest.CLI(t, cluster.Addrs()[1], "SET", k, "strange")
			q.Close()
			q = openOn(t, cluster) // which remembers nothing
			storecheck.Eventually(t, "all to vote", func() bool { return voters(q) == len(q.all) })
			forgetsAndIsHealed(t, cluster, q)
			cluster.Member(1).Freeze()
			defer cluster.Member(1).Thaw()
			it, err := openOn(t, cluster).Read(redistest.Within(t, 10*time.Second), "line/a")
			if string(it.Value) != want || (err == nil) != (want != "") {
				t.Errorf("there stands %q, %v", it.Value, err)
			}
		})
	}
}

// A server does not vote where it finds something strange, and leaves it as it is: what it has promised there is not known any more.
func TestWhoFindsSomethingStrangeDoesNotVoteThere(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3))
	q := openOn(t, cluster)
	k, a := keyOf(q, "line/a"), q.all[0]
	storecheck.Eventually(t, "all to vote", func() bool { return voters(q) == len(q.all) })
	for _, text := range []string{"!", "strange", strings.Repeat("0", 79), strings.Repeat("0", 79) + "x" + strings.Repeat("\x00", 100), strings.Repeat(" ", 200)} {
		high := accepted{ballot: ballot{5, 5}, content: content{id: register.NewVersion(), version: register.NewVersion()}}
		for name, ask := range map[string]func(context.Context, *roster, *acceptor) vote{
			"look": func(ctx context.Context, r *roster, a *acceptor) vote { return a.ask(ctx, r, lookScript, "line/a") },
			"prepare": func(ctx context.Context, r *roster, a *acceptor) vote {
				return a.ask(ctx, r, prepareScript, "line/a", high.ballot.String())
			},
			"accept": q.accept("line/a", high),
		} {
			redistest.CLI(t, a.Address, "SET", k, text)
			if v := ask(redistest.Within(t, 10*time.Second), q.roster.Load(), a); !errors.Is(v.err, errForeign) {
				t.Errorf("%s, where there stands %.20q: %+v", name, text, v)
			}
			if now := redistest.CLI(t, a.Address, "STRLEN", k); now != strconv.Itoa(len(text)) {
				t.Errorf("%s has changed %.20q: it is %s long", name, text, now)
			}
		}
	}
}

// Whoever may write to one key uses up the ballots of no other register.
func TestWhoWritesToOneLineUsesUpNoBallotsOfOthers(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3))
	q := openOn(t, cluster)
	redistest.Put(t, q, "line/spoilt", "x")
	storecheck.Eventually(t, "all have it", func() bool {
		return !slices.ContainsFunc(cluster.Addrs(), func(a string) bool { return redistest.CLI(t, a, "EXISTS", keyOf(q, "line/spoilt")) != "1" })
	})
	high := ballot{ballotEnd - 3, 1}
	value := high.next().String() + high.String() + "0000000000000001" + "\x01\x01\x01\x01\x01\x01\x01\x01" + strings.Repeat("\x00", 8)
	k := keyOf(q, "line/spoilt")
	spoilt(t, cluster, k, []string{"SET", k, value})
	storecheck.Eventually(t, "all to vote", func() bool { return voters(q) == len(q.all) })
	if _, err := q.collectOnce(redistest.Within(t, 20*time.Second), collectAfter); err != nil {
		t.Fatal(err)
	}
	t.Logf("the floor is %q", redistest.CLI(t, cluster.Addrs()[0], "GET", q.all[0].floor()))
	other := openOn(t, cluster)
	it := redistest.Put(t, other, "session/new", "one")
	for i := range 5 {
		w := register.Swap{Key: it.Key, Old: it.Version, Next: register.NewVersion(), Value: fmt.Append(nil, i)}
		var err error
		if it, err = other.Swap(redistest.Within(t, 10*time.Second), w); err != nil {
			t.Fatalf("swap %d of another register: %v", i, err)
		}
	}
	if got, err := q.Read(redistest.Within(t, 10*time.Second), it.Key); err != nil || got.Version != it.Version {
		t.Errorf("another register, as others see it: %q, %v", got.Value, err)
	}
	if err := q.List(redistest.Within(t, 10*time.Second), "session/", func(register.Item) bool { return true }); err != nil {
		t.Errorf("the others: %v", err)
	}
}
