package quorum

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/redis"
	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/servers"
)

// Two were emptied, and the third was restarted: it does not vote, but has registers of before. They would count for more than what
// the new group agrees to, and undo it.
func TestAGroupIsNotFoundedOnRegistersOfAnother(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3), servers.AppendOnly("everysec"))
	all := cluster.Addrs()
	for range 6 { // each goes well beyond the ballots of the one before
		q := openOn(t, cluster)
		redistest.Put(t, q, "r", "old")
		q.Close()
	}
	time.Sleep(2 * time.Second) // it is on the disk
	cluster.Member(2).Restart(t)
	redistest.CLI(t, all[0], "FLUSHALL")
	redistest.CLI(t, all[1], "FLUSHALL")
	q, err := Open(redistest.Within(t, 25*time.Second), all)
	if err == nil {
		it := redistest.Put(t, q, "r", "new")
		q.Close()
		cluster.Member(0).Kill()
		if got := redistest.Read(t, openOn(t, cluster), "r"); got.Version != it.Version {
			t.Errorf("%q was swapped in, and there stands %q", it.Value, got.Value)
		}
		t.Fatal("the group was founded")
	}
	if !strings.Contains(err.Error(), all[2]) || !strings.Contains(err.Error(), "FLUSHALL") {
		t.Errorf("open: %v", err)
	}
	redistest.CLI(t, all[2], "FLUSHALL")
	openOn(t, cluster)
}

// Somebody healed the third and broke it off. Then the others were emptied.
func TestAGroupIsFoundedAfterAHealingWasBrokenOff(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3))
	all := cluster.Addrs()
	q := openOn(t, cluster)
	var m member
	for m.memory.ID() == "" || m.memory.ID() > "4" { // so low that it will be the lowest soon
		redistest.CLI(t, all[2], "FLUSHALL")
		if m = q.membership(q.all[2]); m.err != nil {
			t.Fatal(m.err)
		}
	}
	if _, err := m.enrol(t.Context(), "*", "h 0123456789abcdef", q.roster.Load()); err != nil {
		t.Fatal(err)
	}
	q.Close()
	if state := redistest.CLI(t, all[2], "GET", "turnwise-quorum.member"); !strings.HasPrefix(state, "h ") {
		t.Fatalf("its state is %q", state)
	}
	for { // a group is founded from the lowest memory on
		var ids []string
		for i, address := range all {
			if i < 2 {
				redistest.CLI(t, address, "FLUSHALL")
			}
			one, err := redis.Open(redistest.Within(t, 20*time.Second), address, redis.WithRoot(defaultRoot))
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, redistest.Remembered(t, one).ID)
			one.Close()
		}
		if ids[2] == slices.Min(ids) {
			break
		}
	}
	openOn(t, cluster)
}

// A name leads to a server of another group for a while, and the others are well.
func TestAServerOfAnotherGroupDisturbsNobody(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(6))
	all := cluster.Addrs()
	other, err := Open(redistest.Within(t, 20*time.Second), all[3:])
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
	name := faultproxy.Start(t, all[2])
	q, err := Open(redistest.Within(t, 20*time.Second), []string{all[0], all[1], name.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	redistest.Put(t, q, "r", "one")
	name.Lead(all[3])
	swaps := 0
	for began := time.Now(); time.Since(began) < 3*time.Second; time.Sleep(20 * time.Millisecond) { // it is looked at each second
		it, err := q.Read(redistest.Within(t, 10*time.Second), "r")
		if err == nil {
			_, err = q.Swap(redistest.Within(t, 10*time.Second), register.Swap{Key: "r", Old: it.Version, Next: register.NewVersion()})
		}
		if err != nil {
			t.Fatalf("after %v: %v", time.Since(began), err)
		}
		swaps++
	}
	if swaps < 10 {
		t.Errorf("%d swaps", swaps)
	}
	name.Lead(all[2])
	storecheck.Eventually(t, "it votes again", func() bool {
		q.Read(redistest.Within(t, time.Second), "r")
		return q.all[2].seat.isTaken()
	})
}

// unopened returns a store that has asked some servers what they are, and neither found a group nor founded one.
func unopened(t *testing.T, named []string) (*Store, []member) {
	t.Helper()
	c, err := server.Configure(storekit.ToOpen, defaultRoot, []redis.Option(nil))
	if err != nil {
		t.Fatal(err)
	}
	q := newStore(c)
	for _, address := range named {
		at, err := server.Parse(address, c)
		if err != nil {
			t.Fatal(err)
		}
		a, err := newAcceptor(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		q.all = append(q.all, a)
	}
	all, err := q.survey(redistest.Within(t, 20*time.Second), func([]member) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	return q, all
}

// founded has a group of three founded but for the last step, which so many have taken.
func founded(t *testing.T, cluster *servers.Cluster, voting int) {
	t.Helper()
	q, all := unopened(t, cluster.Addrs())
	defer q.Close()
	slices.SortFunc(all, func(a, b member) int { return strings.Compare(a.memory.ID(), b.memory.ID()) })
	r := &roster{group: newGroup(), term: 1}
	for _, m := range all {
		r.seats = append(r.seats, listed{memory: m.memory.ID(), since: 1, address: m.Address})
	}
	for i, m := range all {
		state := "f "
		if i < voting {
			state = "v "
		}
		if stands, err := m.enrol(t.Context(), "", state+r.group, r); err != nil || !strings.HasPrefix(stands, state) {
			t.Fatalf("%q, %v", stands, err)
		}
	}
}

// The founder came to an end, or got no answer, when some voted and the others were about to.
func TestAFoundingThatWasBrokenOffIsEnded(t *testing.T) {
	for voting := range 3 {
		cluster := servers.Redis(t, servers.Members(3))
		founded(t, cluster, voting)
		q := openOn(t, cluster)
		redistest.Put(t, q, "a", "one")
		if voting < 2 {
			storecheck.Eventually(t, "three votes", func() bool { return voters(q) == 3 })
		}
	}
}

// With the servers of two groups, one process would go by this group and the next by that.
func TestServersOfTwoGroupsAreRefused(t *testing.T) {
	all := servers.Redis(t, servers.Members(6)).Addrs()
	openNamed(t, all[:3]...)
	openNamed(t, all[3:]...)
	for range 5 {
		q, err := Open(redistest.Within(t, 20*time.Second), all)
		if err == nil {
			q.Close()
			t.Fatal("they were opened")
		}
		if !errors.Is(err, driver.ErrDenied) {
			t.Fatal(err)
		}
	}
}

// A group is founded anew while somebody has half a proposal for the one before. The next group knows nothing of that.
func TestAProposalForOneGroupIsNoneForTheNext(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3))
	q := openOn(t, cluster)
	var it register.Item
	for range 20 { // its ballots are higher than those of the next group
		it = redistest.Put(t, q, "a", "one")
	}
	var is register.Item
	_, err := q.change(redistest.Within(t, time.Minute), "a", func(now content, _ bool) (content, time.Duration) {
		if is.Version.IsZero() {
			for _, a := range cluster.Addrs() {
				redistest.CLI(t, a, "FLUSHALL")
			}
			is = redistest.Put(t, openOn(t, cluster), "a", "of the next group")
			storecheck.Eventually(t, "to know that all was forgotten", func() bool {
				_, err := q.Read(t.Context(), "a")
				return errors.Is(err, register.ErrForgot)
			})
			redistest.Remembered(t, q)
		}
		return now.after(register.Swap{Key: "a", Old: it.Version, Next: register.NewVersion(), Value: []byte("of before")}), 0
	})
	if got := redistest.Read(t, openOn(t, cluster), "a"); err == nil || got.Version != is.Version {
		t.Errorf("%v, and there stands %q", err, got.Value)
	}
}

// Two name different servers, and found at the same time: each has got one of the two that both name. Neither may go on without the
// other one, or both would.
func TestTwoFoundingsWithTheSameServersMakeNoTwoGroups(t *testing.T) {
	all := servers.Redis(t, servers.Members(4)).Addrs()
	one, other := []string{all[0], all[1], all[2]}, []string{all[0], all[1], all[3]}
	begin := func(named []string, states ...string) {
		q, answers := unopened(t, named)
		defer q.Close()
		r := &roster{group: newGroup(), term: 1}
		for _, m := range answers {
			r.seats = append(r.seats, listed{memory: m.memory.ID(), since: 1, address: m.Address})
		}
		for _, m := range answers {
			state := states[slices.Index(named, m.Address)]
			if state == "" {
				continue
			}
			if stands, err := m.enrol(t.Context(), "", state+" "+r.group, r); err != nil || !strings.HasPrefix(stands, state) {
				t.Fatalf("%q, %v", stands, err)
			}
		}
	}
	begin(one, "v", "", "f")
	begin(other, "", "f", "v")
	opened := 0
	for _, named := range [][]string{one, other} {
		q, err := Open(redistest.Within(t, 8*time.Second), named) // it tries on for as long as it may
		if err == nil {
			opened++
			q.Close()
		} else if !strings.Contains(err.Error(), "FLUSHALL") {
			t.Errorf("it does not say what to do: %v", err)
		}
	}
	if opened > 1 {
		t.Error("there are two groups")
	}
	for _, a := range all {
		redistest.CLI(t, a, "FLUSHALL")
	}
	openNamed(t, one...)
	openNamed(t, other...)
}
