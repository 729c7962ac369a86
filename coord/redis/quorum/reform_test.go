package quorum

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/servers"
)

func openNamed(t testing.TB, addresses ...string) *Store {
	t.Helper()
	q, err := Open(redistest.Within(t, 20*time.Second), addresses)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

func reform(t testing.TB, q *Store) {
	t.Helper()
	if err := q.Reform(redistest.Within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
}

// cannotAgree checks that a store neither reads nor swaps.
func cannotAgree(t testing.TB, q *Store, it register.Item) {
	t.Helper()
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		if got, err := q.Read(ctx, it.Key); err == nil {
			t.Errorf("it reads %q", got.Value)
		}
		if _, err := q.Swap(ctx, register.Swap{Key: it.Key, Old: it.Version, Next: register.NewVersion(), Value: []byte("by two of the old ones")}); err == nil {
			t.Error("it swaps")
		}
		cancel()
	}
}

// Those who name three of five, or one that is not of the group, agree with all others or with nobody.
func TestWhoNamesOtherServersThanTheGroupHasAgreesWithTheOthers(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(6))
	all := cluster.Addrs()
	five := openNamed(t, all[:5]...)
	it := redistest.Put(t, five, "a", "one")
	three, others, four := openNamed(t, all[:3]...), openNamed(t, all[2:5]...), openNamed(t, all[2:]...)
	for _, q := range []*Store{three, others, four} {
		if got := redistest.Read(t, q, "a"); got.Version != it.Version {
			t.Errorf("it reads %q", got.Value)
		}
		it = redistest.Put(t, q, "a", "by one of them")
	}
	_, err := Open(redistest.Within(t, 5*time.Second), []string{all[0], all[1], all[5]})
	if err == nil {
		t.Fatal("two of five are a majority")
	}
	cluster.Member(2).Kill()
	cannotAgree(t, three, it) // with the two that are left
	redistest.Put(t, five, "a", "two")
}

// While eight clients count, some by the earlier names and some by the new ones, a server is replaced, and then one is added, and
// another.
func TestServersAreReplacedAndAddedUnderLoad(t *testing.T) {
	all := servers.Redis(t, servers.Members(6), servers.AppendOnly("always")).Addrs()
	old := openNamed(t, all[:3]...)
	redistest.Put(t, old, "a", "one")
	var reforming sync.WaitGroup
	reforming.Go(func() {
		for _, named := range [][]string{{all[0], all[1], all[3]}, {all[0], all[1], all[3], all[4]}, {all[0], all[1], all[3], all[4], all[5]}} {
			time.Sleep(time.Second)
			reform(t, openNamed(t, named...))
		}
	})
	names := [][]string{all[:3], {all[0], all[1], all[3]}, {all[0], all[1], all[3], all[4], all[5]}}
	var mu sync.Mutex
	opened := 0
	count(t, 5*time.Second, func(i int) *Store {
		mu.Lock()
		defer mu.Unlock()
		if opened++; opened > 8 { // at the end
			return openNamed(t, names[2]...)
		}
		return openNamed(t, names[i%2]...)
	})
	reforming.Wait()
	q := openNamed(t, names[2]...)
	if r := q.roster.Load(); len(r.seats) != 5 || r.term < 4 {
		t.Errorf("the roster is %v", r)
	}
	storecheck.Eventually(t, "five votes", func() bool { return voters(q) == 5 })
	if it := redistest.Read(t, q, "a"); string(it.Value) != "one" {
		t.Errorf("there stands %q", it.Value)
	}
}

// Who still names the server that was replaced does not agree with it about anything.
func TestAServerThatWasReplacedVotesWithNobody(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(4), servers.AppendOnly("always"))
	all := cluster.Addrs()
	old := openNamed(t, all[:3]...)
	it := redistest.Put(t, old, "a", "one")
	cluster.Member(2).Kill()
	now := openNamed(t, all[0], all[1], all[3])
	reform(t, now)
	cluster.Member(2).Restart(t)
	redistest.Put(t, old, "b", "the old names go on")
	cluster.Member(1).Kill()
	two := redistest.Put(t, now, "a", "two")
	cannotAgree(t, old, it)
	if got, err := Open(redistest.Within(t, 3*time.Second), all[:3]); err == nil {
		got.Close()
		t.Error("the old names open")
	}
	if it := redistest.Read(t, now, "a"); it.Version != two.Version {
		t.Errorf("there stands %q", it.Value)
	}
}

// A server is replaced, and comes back later. What it has of before is old.
func TestAServerThatComesBackIsFilledFirst(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(4), servers.AppendOnly("always"))
	all := cluster.Addrs()
	old := openNamed(t, all[:3]...)
	redistest.Put(t, old, "a", "one")
	gone := redistest.Put(t, old, "gone", "one")
	cluster.Member(2).Kill()
	other := openNamed(t, all[0], all[1], all[3])
	reform(t, other)
	cluster.Member(1).Kill() // so that only the first knows when the fourth has gone
	redistest.Put(t, other, "a", "two")
	if _, err := other.Swap(t.Context(), register.Swap{Key: "gone", Old: gone.Version}); err != nil {
		t.Fatal(err)
	}
	cluster.Member(1).Restart(t)
	cluster.Member(2).Restart(t)
	again := openNamed(t, all[:3]...)
	if err := again.Heal(redistest.Within(t, 20*time.Second)); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "Reform") {
		t.Errorf("heal: %v", err)
	}
	reform(t, again)
	storecheck.Eventually(t, "three votes", func() bool { return voters(again) == 3 })
	cluster.Member(0).Kill()
	for range 3 {
		if it := redistest.Read(t, again, "a"); string(it.Value) != "two" {
			t.Errorf("there stands %q", it.Value)
		}
		if it := redistest.Read(t, again, "gone"); !it.Version.IsZero() {
			t.Errorf("what was deleted is there again: %q", it.Value)
		}
	}
}

// The second has missed what the first and the third agreed to, and the first has forgotten. Once that is healed, it knows as much
// as the third.
func TestWhoIsHealedKnowsWhatOneOfTheOthersDoesNot(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3), servers.AppendOnly("always"))
	q := openOn(t, cluster)
	redistest.Put(t, q, "a", "one")
	cluster.Member(1).Kill()
	it := redistest.Put(t, q, "a", "two")
	cluster.Member(1).Restart(t)
	redistest.CLI(t, cluster.Addrs()[0], "FLUSHALL")
	if err := q.Heal(redistest.Within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	cluster.Member(2).Kill()
	if got := redistest.Read(t, openOn(t, cluster), "a"); got.Version != it.Version {
		t.Errorf("there stands %q", got.Value)
	}
}

// Appendonly was switched off at one, which was healed without. Then it was started with the file of before, and votes by that: only
// the others know that it has voted since.
func TestAServerWithAnOldFileVotesWithNobody(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3), servers.AppendOnly("always"))
	q := openOn(t, cluster)
	redistest.Put(t, q, "a", "one")
	m := cluster.Member(2)
	redistest.CLI(t, m.Addr(), "CONFIG", "SET", "appendonly", "no")
	storecheck.Eventually(t, "two votes", func() bool { return voters(q) == 2 })
	if err := q.Heal(redistest.Within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	storecheck.Eventually(t, "three votes", func() bool { return voters(q) == 3 })
	cluster.Member(0).Freeze()
	it := redistest.Put(t, q, "a", "two") // by the second and the third
	q.Close()
	m.Kill()
	m.Restart(t)
	cluster.Member(0).Thaw()
	for range 5 {
		newcomer := openOn(t, cluster)
		if got := redistest.Read(t, newcomer, "a"); got.Version != it.Version {
			t.Fatalf("there stands %q", got.Value)
		}
		newcomer.Close()
	}
	cluster.Member(1).Kill()
	if q, err := Open(redistest.Within(t, 3*time.Second), cluster.Addrs()); err == nil {
		t.Errorf("it reads %q", redistest.Read(t, q, "a").Value)
		q.Close()
	}
}

// Somebody came to an end when the next roster was decided on, and one had been told, or none.
func TestWhoeverComesNextEndsAReform(t *testing.T) {
	for told := range 3 {
		cluster := servers.Redis(t, servers.Members(4))
		all := cluster.Addrs()
		q := openNamed(t, all[:3]...)
		redistest.Put(t, q, "a", "one")
		named := openNamed(t, all[0], all[1], all[3])
		answers, err := named.survey(t.Context(), func([]member) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		r := rosterOf(answers)
		next, err := named.reforms(r, answers)
		if err != nil || next == nil {
			t.Fatalf("%v, %v", next, err)
		}
		var some []member
		for _, m := range answers {
			if m.votes(r) && len(some) < told {
				some = append(some, m)
			}
		}
		if err := named.enact(t.Context(), r, next, some); (err == nil) != (told == 2) {
			t.Errorf("told %d: %v", told, err)
		}
		redistest.Put(t, q, "b", "all goes on")
		if it := redistest.Read(t, openNamed(t, all[:3]...), "b"); string(it.Value) != "all goes on" {
			t.Errorf("told %d: there stands %q", told, it.Value)
		}
		reform(t, named)
		storecheck.Eventually(t, "three votes", func() bool { return voters(named) == 3 })
		if it := redistest.Read(t, named, "a"); string(it.Value) != "one" {
			t.Errorf("told %d: there stands %q", told, it.Value)
		}
	}
}

func TestWhatAReformRefuses(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(6))
	all := cluster.Addrs()
	five := openNamed(t, all[:5]...)
	redistest.Put(t, five, "a", "one")
	if err := openNamed(t, all[:3]...).Reform(t.Context()); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "smaller") {
		t.Errorf("a smaller group: %v", err)
	}
	if err := five.Reform(t.Context()); err != nil {
		t.Errorf("nothing to do: %v", err)
	}
	named := openNamed(t, all[:6]...)
	cluster.Member(2).Kill()
	if err := named.Reform(redistest.Within(t, 20*time.Second)); err == nil || !strings.Contains(err.Error(), "have to answer") {
		t.Errorf("one does not answer: %v", err)
	}
	redistest.Put(t, five, "a", "two")
}

// A server was of another group, whose ballots were high, and has lost its place there, but not what it had.
func TestANewServerKeepsNothingOfBefore(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(6))
	all := cluster.Addrs()
	for range 6 { // each goes well beyond the ballots of the one before
		other := openNamed(t, all[3:]...)
		redistest.Put(t, other, "a", "another group's")
		redistest.Put(t, other, "b", "another group's")
		other.Close()
	}
	redistest.CLI(t, all[3], "DEL", "turnwise-quorum.member")
	q := openNamed(t, all[:3]...)
	redistest.Put(t, q, "a", "ours")
	cluster.Member(2).Kill()
	q = openNamed(t, all[0], all[1], all[3])
	reform(t, q)
	storecheck.Eventually(t, "three votes", func() bool { return voters(q) == 3 })
	cluster.Member(0).Kill()
	if it := redistest.Read(t, q, "a"); string(it.Value) != "ours" {
		t.Errorf("there stands %q", it.Value)
	}
	if it := redistest.Read(t, q, "b"); !it.Version.IsZero() {
		t.Errorf("what was never there: %q", it.Value)
	}
}

// plan returns the group's roster, the next one that somebody plans, and the answers by which he does.
func plan(t testing.TB, q *Store) (r, next *roster, answers []member) {
	t.Helper()
	answers, err := q.survey(redistest.Within(t, 20*time.Second), func([]member) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	r = rosterOf(answers)
	if next, err = q.reforms(r, answers); err != nil || next == nil {
		t.Fatalf("%v, %v", next, err)
	}
	return r, next, answers
}

// Somebody was stopped after his look at the group. Meanwhile the third was replaced, and then listed again, and is not filled yet.
// Who wakes must not have it vote by what it had.
func TestWhoWakesTakesNobodyAlongThatIsNotFilled(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(4), servers.AppendOnly("always"))
	all := cluster.Addrs()
	redistest.Put(t, openNamed(t, all[:3]...), "a", "one")
	sleeper := openNamed(t, all...)
	r, next, answers := plan(t, sleeper)
	other := openNamed(t, all[0], all[1], all[3])
	reform(t, other)
	cluster.Member(1).Kill()
	it := redistest.Put(t, other, "a", "two")
	cluster.Member(1).Restart(t)
	again := openNamed(t, all[:3]...)
	was, is, voters := plan(t, again)
	if err := again.enact(t.Context(), was, is, voters); err != nil {
		t.Fatal(err)
	}
	if err := sleeper.enact(t.Context(), r, next, answers); err != nil {
		t.Log(err)
	}
	cluster.Member(0).Kill()
	if q, err := Open(redistest.Within(t, 3*time.Second), all[:3]); err == nil {
		if got := redistest.Read(t, q, "a"); got.Version != it.Version {
			t.Errorf("there stands %q", got.Value)
		}
		q.Close()
	}
	cluster.Member(0).Restart(t)
	reform(t, again)
	if got := redistest.Read(t, again, "a"); got.Version != it.Version {
		t.Errorf("at the end there stands %q", got.Value)
	}
}

// Two swap the same register. One was accepted by a single server, and the other has the promises of the rest. Then the third server is
// replaced. What it is filled with must not make the first count, since the second does not know of it.
func TestAServerThatIsFilledHasNoVoteOfItsOwnInWhatIsOpen(t *testing.T) {
	for _, higher := range []ballot{{count: 1000}, {round: 1}} { // above the ballot that comes next to the first, or between the two
		fillWhatIsOpen(t, higher)
	}
}

func fillWhatIsOpen(t *testing.T, higher ballot) {
	cluster := servers.Redis(t, servers.Members(4), servers.AppendOnly("always"))
	all := cluster.Addrs()
	ctx := redistest.Within(t, time.Minute)
	q := openNamed(t, all[:3]...)
	it := redistest.Put(t, q, "a", "one")
	storecheck.Eventually(t, "all to vote", func() bool { return voters(q) == 3 })
	r := q.roster.Load()
	now, err := q.read(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	low := newBallot(now.ballot.count + 1000)
	high := ballot{low.count + higher.count, low.round + higher.round}
	swap := func(value string) content {
		return now.content.after(register.Swap{Key: "a", Old: it.Version, Next: register.NewVersion(), Value: []byte(value)})
	}
	agreed := func(v vote) bool {
		if v.err != nil {
			t.Fatal(v.err)
		}
		return !v.refused
	}
	first, second := swap("by the first"), swap("by the second")
	for _, p := range []struct {
		ballot ballot
		by     []*acceptor
	}{{low, q.all[:2]}, {high, q.all[1:]}} {
		for _, a := range p.by {
			if !agreed(a.ask(ctx, r, prepareScript, "a", p.ballot.String())) {
				t.Fatal("it does not promise")
			}
		}
	}
	if !agreed(q.accept("a", accepted{ballot: low, content: first})(ctx, r, q.all[0])) {
		t.Fatal("the first server does not accept")
	}
	named := openNamed(t, all[0], all[1], all[3])
	reform(t, named)
	storecheck.Eventually(t, "all to vote", func() bool { return voters(named) == 3 })
	cluster.Member(1).Freeze()
	got := redistest.Read(t, named, "a")
	cluster.Member(1).Thaw()
	r = named.roster.Load()
	if agreed(named.accept("a", accepted{ballot: high, content: second})(ctx, r, named.all[1])) &&
		agreed(named.accept("a", accepted{ballot: high, content: second})(ctx, r, named.all[2])) && got.Version == first.version {
		t.Fatalf("%q was read, and then the other replaced what was there before", got.Value)
	}
	cluster.Member(0).Freeze()
	defer cluster.Member(0).Thaw()
	if last := redistest.Read(t, named, "a"); last.Version != got.Version {
		t.Errorf("%q was read, and then %q", got.Value, last.Value)
	}
}

// Somebody has decided on a roster, and came to an end before he told anybody. Who comes next names others, and one is away that this
// roster needs: to go by it would end what goes on without.
func TestARosterThatCannotGoOnIsNotBegun(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(5), servers.AppendOnly("always"))
	all := cluster.Addrs()
	q := openNamed(t, all[:3]...)
	redistest.Put(t, q, "a", "one")
	first := openNamed(t, all[0], all[1], all[3])
	r, next, _ := plan(t, first)
	if err := first.enact(t.Context(), r, next, nil); err == nil {
		t.Fatal("nobody was told, and all is well")
	}
	cluster.Member(1).Kill()
	other := openNamed(t, all[0], all[2], all[4])
	if err := other.Reform(redistest.Within(t, 10*time.Second)); err == nil || !strings.Contains(err.Error(), next.addresses()) {
		t.Errorf("reform: %v", err)
	}
	redistest.Put(t, q, "a", "two")
	cluster.Member(1).Restart(t)
	reform(t, first)
	if it := redistest.Read(t, first, "a"); string(it.Value) != "two" {
		t.Errorf("there stands %q", it.Value)
	}
	reform(t, openNamed(t, all[0], all[1], all[4])) // and on to others
}

// Somebody has decided that a server is added, and came to an end before he told anybody. Then one of the others forgets. With the
// new one the group could not go on, and without the old one it cannot either, should another be lost: so it is healed first.
func TestAServerIsHealedThoughItWasDecidedToAddAnother(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(4))
	all := cluster.Addrs()
	q, more := openNamed(t, all[:3]...), openNamed(t, all...)
	redistest.Put(t, q, "a", "one")
	r, next, answers := plan(t, more)
	if err := more.enact(t.Context(), r, next, nil); err == nil {
		t.Fatal("nobody was told, and all is well")
	}
	cluster.Member(2).Kill()
	cluster.Member(2).Restart(t)
	it := redistest.Put(t, q, "a", "two")
	if err := q.Heal(redistest.Within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	// Who was stopped in between wakes: what he knows of is over.
	if err := more.enact(t.Context(), r, next, answers); err != nil {
		t.Log(err)
	}
	cluster.Member(0).Kill()
	if got := redistest.Read(t, q, "a"); got.Version != it.Version {
		t.Errorf("there stands %q", got.Value)
	}
	it = redistest.Put(t, q, "a", "three")
	cluster.Member(0).Restart(t)
	reform(t, more)
	if r := more.roster.Load(); len(r.seats) != 4 {
		t.Errorf("the group consists of %s", r.addresses())
	}
	if got := redistest.Read(t, more, "a"); got.Version != it.Version {
		t.Errorf("at the end there stands %q", got.Value)
	}
}

// A round begins in one term and ends in the next: what was accepted in the first is not undone.
func TestARoundOfTwoTermsIsNotInVain(t *testing.T) {
	all := servers.Redis(t, servers.Members(4)).Addrs()
	q, more := openNamed(t, all[:3]...), openNamed(t, all...)
	was := q.roster.Load()
	var once sync.Once
	votes, err := q.poll(redistest.Within(t, 20*time.Second), func(_ context.Context, r *roster, a *acceptor) vote {
		switch {
		case r != was:
			return vote{from: a, refused: true}
		case a == q.all[0]:
			return vote{from: a}
		}
		once.Do(func() { reform(t, more) })
		return vote{from: a, err: errMoved}
	})
	if err != errRefused || votes.isVain() {
		t.Errorf("%v, and one has accepted it: %+v", err, votes)
	}
}

// Three reform all the time, each to servers of its own choice, and come to an end at any step. Meanwhile servers are stopped, somebody
// collects, and eight count.
func TestManyReformAtOnce(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(4), servers.AppendOnly("always"))
	all := cluster.Addrs()
	openNamed(t, all[:3]...)
	collector := openNamed(t, all...)
	life, end := context.WithCancel(context.Background())
	var others sync.WaitGroup
	again := func(pause time.Duration, do func()) {
		others.Go(func() {
			for life.Err() == nil {
				do()
				time.Sleep(rand.N(pause))
			}
		})
	}
	within := func(d time.Duration, do func(context.Context)) {
		ctx, cancel := context.WithTimeout(life, d)
		defer cancel()
		do(ctx)
	}
	for range 3 {
		again(150*time.Millisecond, func() {
			n := rand.Perm(4)
			within(3*time.Second, func(ctx context.Context) {
				if q, err := Open(ctx, []string{all[n[0]], all[n[1]], all[n[2]]}); err == nil {
					defer q.Close()
					for range 3 {
						within(3*time.Millisecond+rand.N(200*time.Millisecond), func(ctx context.Context) { _ = q.Reform(ctx) })
					}
				}
			})
		})
	}
	again(200*time.Millisecond, func() {
		m := cluster.Member(rand.IntN(4))
		m.Freeze()
		time.Sleep(rand.N(60 * time.Millisecond))
		m.Thaw()
	})
	again(20*time.Millisecond, func() {
		within(2*time.Second, func(ctx context.Context) { _, _ = collector.collectOnce(ctx, 0) })
	})
	terms := func() uint64 { return openNamed(t, all...).roster.Load().term }
	count(t, 6*time.Second, func(int) *Store { return openNamed(t, all...) })
	for limit := time.Now().Add(30 * time.Second); terms() < 5 && time.Now().Before(limit); time.Sleep(time.Second) { // on a busy machine
	}
	end()
	others.Wait()
	q := openNamed(t, all...)
	redistest.Put(t, q, "a", "it goes on")
	if n := terms(); n < 5 {
		t.Errorf("%d terms show nothing", n)
	}
}

// Somebody asked a server what it is, and the answer came when the group had another roster already. The server has a seat by that.
func TestAnAnswerThatIsLateTakesNoSeatAway(t *testing.T) {
	all := servers.Redis(t, servers.Members(4)).Addrs()
	q := openNamed(t, all[:3]...)
	late := q.membership(q.all[0])
	was := q.roster.Load()
	reform(t, openNamed(t, all...))
	if err := q.follow(redistest.Within(t, 20*time.Second), was); err != nil {
		t.Fatal(err)
	}
	storecheck.Eventually(t, "it votes", func() bool { return voters(q) == 3 })
	if q.seat(late); !q.all[0].seat.isTaken() {
		t.Error("it votes no more")
	}
}

// A group is founded anew between somebody's look at the group before and what he then decides. The next group must not go by that: its
// members are nobody's any more.
func TestAReformOfOneGroupDecidesNothingForTheNext(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(4))
	all := cluster.Addrs()
	q := openNamed(t, all[:3]...)
	redistest.Put(t, q, "a", "one")
	sleeper := openNamed(t, all...)
	r, next, answers := plan(t, sleeper)
	for _, a := range all {
		redistest.CLI(t, a, "FLUSHALL")
	}
	openNamed(t, all[:3]...)
	redistest.Remembered(t, sleeper)
	if err := sleeper.enact(redistest.Within(t, 10*time.Second), r, next, answers); err == nil {
		t.Error("it was decided")
	}
	reform(t, openNamed(t, all...))
}

// One server did not answer at first. So it was not noticed that another name leads to a database of the same.
func TestAReformTakesNoServerTwice(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3))
	all := cluster.Addrs()
	openNamed(t, all...)
	cluster.Member(0).Freeze()
	q := openNamed(t, all[0], all[1], all[2], "redis://"+all[0]+"/1")
	cluster.Member(0).Thaw()
	if err := q.Reform(redistest.Within(t, 20*time.Second)); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("reform: %v", err)
	}
	if r := openNamed(t, all...).roster.Load(); len(r.seats) != 3 {
		t.Errorf("the group consists of %s", r.addresses())
	}
}

// Two names have been exchanged, as containers may get each other's addresses, and one of the two servers has forgotten.
func TestAServerIsTakenInWhoseNameWasAnothers(t *testing.T) {
	all := servers.Redis(t, servers.Members(3)).Addrs()
	x, y := faultproxy.Start(t, all[0]), faultproxy.Start(t, all[1])
	openNamed(t, x.Addr(), y.Addr(), all[2]).Close()
	x.Lead(all[1])
	y.Lead(all[0])
	redistest.CLI(t, all[0], "FLUSHALL")
	q := openNamed(t, x.Addr(), y.Addr(), all[2])
	redistest.Put(t, q, "a", "one")
	if err := q.Heal(redistest.Within(t, 20*time.Second)); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "Reform") {
		t.Errorf("heal: %v", err)
	}
	reform(t, q)
	storecheck.Eventually(t, "three votes", func() bool { return voters(q) == 3 })
}

// decide has somebody decide on what named plans, and tell so many of those that vote. Then he comes to an end.
func decide(t testing.TB, named *Store, told int) {
	t.Helper()
	r, next, answers := plan(t, named)
	var some []member
	for _, m := range answers {
		if m.votes(r) && len(some) < told {
			some = append(some, m)
		}
	}
	if err := named.enact(t.Context(), r, next, some); told < r.majority() && err == nil {
		t.Fatal("hardly anybody was told, and all is well")
	}
}

// untold is a server that votes and was not told of what q's group has decided on last.
func untold(t testing.TB, q *Store) int {
	t.Helper()
	all, err := q.survey(redistest.Within(t, 20*time.Second), func([]member) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	oldest := slices.MinFunc(all, func(a, b member) int {
		switch {
		case a.roster == nil && b.roster == nil:
			return 0
		case a.roster == nil:
			return 1
		case b.roster == nil:
			return -1
		}
		return cmp.Compare(a.roster.term, b.roster.term)
	})
	return slices.Index(q.all, oldest.acceptor)
}

// heal opens servers and heals them.
func heal(t testing.TB, addresses ...string) *Store {
	t.Helper()
	q := openNamed(t, addresses...)
	if err := q.Heal(redistest.Within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	return q
}

// It was decided to add a server, and some of the others were told, or all. Then one of them forgets. Those that are left know all that
// counts, but are no majority of the new group. So the new one is filled with what they know, and the group goes on.
func TestAMemberThatForgetsWhileAServerIsAddedStopsNobodyForGood(t *testing.T) {
	for told := 1; told <= 3; told++ {
		cluster := servers.Redis(t, servers.Members(4))
		all := cluster.Addrs()
		q := openNamed(t, all[:3]...)
		it := redistest.Put(t, q, "a", "one")
		decide(t, openNamed(t, all...), told)
		m := untold(t, q)
		redistest.CLI(t, all[m], "FLUSHALL")
		// Who does not name the new one is told what to do.
		_, err := Open(redistest.Within(t, 3*time.Second), all[:3])
		if err == nil || !strings.Contains(err.Error(), all[3]) || !strings.Contains(err.Error(), "Heal") || strings.Contains(err.Error(), "FLUSHALL") {
			t.Errorf("told %d: without the new one: %v", told, err)
		}
		named := heal(t, all...)
		if got := redistest.Read(t, named, "a"); got.Version != it.Version {
			t.Errorf("told %d: there stands %q", told, got.Value)
		}
		storecheck.Eventually(t, "four votes", func() bool { redistest.Read(t, named, "a"); return voters(named) == 4 })
		redistest.Put(t, q, "b", "who does not name the new one goes on")
		cluster.Member((m + 1) % 3).Kill()
		if got := redistest.Read(t, named, "a"); got.Version != it.Version {
			t.Errorf("told %d: without one of those who knew, there stands %q", told, got.Value)
		}
	}
}

// It was decided that one server takes the place of another, and nobody was told, or some. Then one of the others forgets. The one that
// is to go and the last one know all that counts.
func TestAMemberThatForgetsWhileAnotherIsReplacedStopsNobodyForGood(t *testing.T) {
	for told := range 3 {
		cluster := servers.Redis(t, servers.Members(4))
		all := cluster.Addrs()
		q := openNamed(t, all[:3]...)
		it := redistest.Put(t, q, "a", "one")
		decide(t, openNamed(t, all[0], all[1], all[3]), told)
		m := untold(t, q)
		if m == 2 {
			m = 1
		}
		redistest.CLI(t, all[m], "FLUSHALL")
		if told == 0 {
			q := openNamed(t, all[:3]...)
			it = redistest.Put(t, q, "a", "those that are left go on")
			err := q.Heal(redistest.Within(t, 20*time.Second))
			if err == nil || !strings.Contains(err.Error(), all[3]) || !strings.Contains(err.Error(), "name these beside") {
				t.Errorf("without the new one: %v", err)
			}
		}
		named := heal(t, all...)
		if got := redistest.Read(t, named, "a"); got.Version != it.Version {
			t.Errorf("told %d: there stands %q", told, got.Value)
		}
		cluster.Member(2).Kill()
		now := openNamed(t, all[0], all[1], all[3])
		storecheck.Eventually(t, "three votes", func() bool { redistest.Read(t, now, "a"); return voters(now) == 3 })
		cluster.Member(1 - m).Kill() // of the two that knew before
		if got := redistest.Read(t, now, "a"); got.Version != it.Version {
			t.Errorf("told %d: without those who knew, there stands %q", told, got.Value)
		}
	}
}

// A replica that attaches to a server, for a backup perhaps, gives it another replication id. It forgets nothing by that.
func TestAReplicaThatAttachesHaltsNoStepOfHeal(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(6))
	all := cluster.Addrs()
	q := openNamed(t, all[:3]...)
	it := redistest.Put(t, q, "a", "one")
	redistest.CLI(t, all[0], "FLUSHALL")
	storecheck.Eventually(t, "two votes", func() bool { return voters(q) == 2 })

	ctx := redistest.Within(t, 2*time.Minute)
	look := func() []member {
		members, err := q.survey(ctx, func([]member) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		return members
	}
	members := look()
	r := rosterOf(members)
	next, err := q.heals(r, members)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.enact(ctx, r, next, members); err != nil {
		t.Fatal(err)
	}
	members = look()
	for i, leader := range all[:3] {
		before := replicationID(t, leader)
		host, port, _ := net.SplitHostPort(leader)
		redistest.CLI(t, all[3+i], "REPLICAOF", host, port)
		storecheck.Eventually(t, "another replication id", func() bool { return replicationID(t, leader) != before })
	}
	m := unfilled(next, members)
	if m == nil {
		t.Fatal("nobody has to be filled, so this shows nothing")
	}
	if err := q.fill(ctx, next, m, members); err != nil {
		t.Fatal(err)
	}
	storecheck.Eventually(t, "three votes", func() bool { return voters(q) == 3 })
	cluster.Member(1).Kill()
	if got := redistest.Read(t, q, "a"); got.Version != it.Version {
		t.Errorf("there stands %q", got.Value)
	}
}

func replicationID(t *testing.T, address string) string {
	t.Helper()
	_, id, _ := strings.Cut(redistest.CLI(t, address, "INFO", "replication"), "master_replid:")
	return id[:40]
}
