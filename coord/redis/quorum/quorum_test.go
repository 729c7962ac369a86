package quorum

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/redis"
	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

func openOn(t testing.TB, cluster *servers.Cluster, opts ...redis.Option) *Store {
	t.Helper()
	q, err := Open(redistest.Within(t, 20*time.Second), cluster.Addrs(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

func TestAQuorumKeepsRegisters(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3))
	q, other := openOn(t, cluster), openOn(t, cluster)
	ctx := t.Context()
	if it := redistest.Read(t, q, "a"); !it.Version.IsZero() || it.Key != "a" {
		t.Errorf("an empty register holds %v", it)
	}
	first := redistest.Put(t, q, "a", "one")
	if it := redistest.Read(t, other, "a"); it.Version != first.Version || string(it.Value) != "one" || it.Age < 0 || it.Age > 10*time.Second {
		t.Errorf("it holds %v", it)
	}
	late := register.Swap{Key: "a", Next: register.NewVersion(), Value: []byte("late")}
	for _, q := range []*Store{q, other} {
		if it, err := q.Swap(ctx, late); !errors.Is(err, register.ErrConflict) || string(it.Value) != "one" {
			t.Errorf("a late swap: %v, %v", it, err)
		}
	}
	second := register.Swap{Key: "a", Old: first.Version, Next: register.NewVersion(), Value: []byte("two")}
	for _, q := range []*Store{q, q, other} { // the second time it comes again
		if it, err := q.Swap(ctx, second); err != nil || string(it.Value) != "two" || it.Version != second.Next {
			t.Errorf("%v, %v", it, err)
		}
	}
	time.Sleep(50 * time.Millisecond)
	storecheck.Eventually(t, "it is as old as that", func() bool { // a server that was asked last may have heard of it late
		return redistest.Read(t, q, "a").Age >= 40*time.Millisecond
	})
	if it := redistest.Read(t, q, "a"); it.Age > 20*time.Second {
		t.Errorf("it is %v old", it.Age)
	}
	redistest.Put(t, q, "b", "x")
	var keys []string
	if err := other.List(ctx, "", func(it register.Item) bool { keys = append(keys, it.Key); return true }); err != nil {
		t.Error(err)
	}
	if slices.Sort(keys); !slices.Equal(keys, []string{"a", "b"}) {
		t.Errorf("listed: %q", keys)
	}
	away := register.Swap{Key: "a", Old: second.Next}
	for _, q := range []*Store{other, other, q} {
		if it, err := q.Swap(ctx, away); err != nil || !it.Version.IsZero() || it.Value != nil {
			t.Errorf("%v, %v", it, err)
		}
	}
	if it, err := q.Swap(ctx, second); !errors.Is(err, register.ErrConflict) || !it.Version.IsZero() {
		t.Errorf("a swap that came after the register was deleted: %v, %v", it, err)
	}
	redistest.Put(t, q, "a", "three")
	if m, o := redistest.Remembered(t, q), redistest.Remembered(t, other); m.ID != o.ID || m.ID == "" {
		t.Errorf("%v and %v", m, o)
	}
}

func TestAQuorumTellsOfSwaps(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3))
	q, other := openOn(t, cluster), openOn(t, cluster)
	a, _ := redistest.Listen(t, q, "a")
	b, stopB := redistest.Listen(t, other, "a")
	var want []string
	for i := range 100 {
		text := fmt.Sprint(i)
		redistest.Put(t, []*Store{q, other}[i%2], "r", text, register.Note{Topic: "a", Text: []byte(text)}, register.Note{Topic: "a", Text: []byte(text + "'")})
		want = append(want, text, text+"'")
	}
	a.Await(t, "99'")
	b.Await(t, "99'")
	for _, h := range []*redistest.Heard{a, b} {
		got := slices.DeleteFunc(h.Notes(), func(s string) bool { return s == "lost" })
		if len(got) == len(h.Notes()) && !slices.Equal(got, want) || !slices.IsSorted(numbers(got)) {
			t.Errorf("heard %v", h.Notes())
		}
	}
	stopB()
	cluster.Member(0).Kill()
	redistest.Put(t, q, "r", "", register.Note{Topic: "a", Text: []byte("end")})
	a.Await(t, "end")
	if slices.Contains(b.Notes(), "end") {
		t.Error("one that was stopped heard something")
	}
	cluster.Member(0).Restart(t)
	a.Await(t, "lost")
}

func numbers(texts []string) (all []int) {
	for _, s := range texts {
		var n int
		fmt.Sscan(strings.TrimSuffix(s, "'"), &n)
		all = append(all, n)
	}
	return all
}

func TestAMinorityMayBeMissing(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3), servers.AppendOnly("always"))
	q := openOn(t, cluster)
	redistest.Put(t, q, "a", "one")
	for i := range 3 {
		m := cluster.Member(i)
		for _, how := range []string{"killed", "frozen"} {
			if how == "killed" {
				m.Kill()
			} else {
				m.Freeze()
			}
			redistest.Put(t, q, "a", fmt.Sprint(how, i))
			q2 := openOn(t, cluster)
			if it := redistest.Read(t, q2, "a"); string(it.Value) != fmt.Sprint(how, i) {
				t.Errorf("%d %s: it holds %q", i, how, it.Value)
			}
			q2.Close()
			if how == "killed" {
				m.Restart(t)
			} else {
				m.Thaw()
			}
			storecheck.Eventually(t, "all to vote", func() bool { return voters(q) == 3 })
		}
	}
	cluster.Member(0).Kill()
	cluster.Member(1).Freeze()
	defer cluster.Member(1).Thaw()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if it, err := q.Read(ctx, "a"); err == nil {
		t.Errorf("without a majority it read %v", it)
	}
}

// A majority is enough to learn what the group remembers. The server that has not answered is a member as before.
func TestOneThatIsSlowToSayWhatItIsGoesOnVoting(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3))
	q := openOn(t, cluster)
	for i, a := range q.all {
		storecheck.Eventually(t, "it to vote", func() bool { return a.seat.isTaken() })
		cluster.Member(i).Freeze()
		redistest.Remembered(t, q)
		if !a.seat.isTaken() {
			t.Errorf("%s votes no more", a.Address)
		}
		cluster.Member(i).Thaw()
	}
}

// A majority is also enough to open a quorum. When one of those fails, the store waits for the one that has not answered
// yet.
func TestAVoteWaitsForOneThatHasNotSaidWhatItIs(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3))
	openOn(t, cluster)
	cluster.Member(0).Freeze()
	q := openOn(t, cluster)
	cluster.Member(1).Kill()
	time.AfterFunc(300*time.Millisecond, cluster.Member(0).Thaw)
	redistest.Put(t, q, "a", "one")
}

// voters asks for a vote, and counts.
func voters(q *Store) (n int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, a := range q.all {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			v := a.ask(ctx, q.roster.Load(), lookScript, "voters")
			if v.err != nil {
				q.lookAgain(a)
			}
			if v.err == nil {
				mu.Lock()
				defer mu.Unlock()
				n++
			}
		})
	}
	all.Wait()
	return n
}

func TestOneThatHasForgottenDoesNotVoteUntilItIsHealed(t *testing.T) {
	for _, how := range []string{"emptied", "restarted", "restarted from a dump"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			cluster := servers.Redis(t, servers.Members(3))
			q, other := openOn(t, cluster), openOn(t, cluster)
			redistest.Put(t, q, "a", "one")
			gone := redistest.Put(t, q, "gone", "x")
			if _, err := q.Swap(t.Context(), register.Swap{Key: "gone", Old: gone.Version}); err != nil {
				t.Fatal(err)
			}
			m := cluster.Member(0)
			switch how {
			case "emptied":
				redistest.CLI(t, m.Addr(), "FLUSHALL")
			case "restarted":
				m.Restart(t)
			case "restarted from a dump":
				redistest.CLI(t, m.Addr(), "SAVE")
				redistest.Put(t, q, "a", "two")
				m.Restart(t)
			}
			redistest.Put(t, q, "a", "three")
			storecheck.Eventually(t, "two votes", func() bool { return voters(q) == 2 && voters(other) == 2 })
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			cluster.Member(1).Freeze()
			if it, err := q.Read(ctx, "a"); err == nil {
				t.Errorf("with one vote it read %v", it)
			}
			cluster.Member(1).Thaw()

			if err := q.Heal(redistest.Within(t, 20*time.Second)); err != nil {
				t.Fatal(err)
			}
			storecheck.Eventually(t, "three votes", func() bool { return voters(q) == 3 && voters(other) == 3 })
			cluster.Member(1).Kill()
			cluster.Member(1).Restart(t) // so the healed one and the third are the majority
			for _, q := range []*Store{q, other} {
				if it := redistest.Read(t, q, "a"); string(it.Value) != "three" {
					t.Errorf("it holds %v", it)
				}
				if it := redistest.Read(t, q, "gone"); !it.Version.IsZero() {
					t.Errorf("what was deleted is there again: %v", it)
				}
				redistest.Put(t, q, "b", "x")
			}
		})
	}
}

// A server may be emptied in the middle of its check. Then a later check succeeds.
func TestOneThatIsEmptiedWhileItIsCheckedIsCheckedAgain(t *testing.T) {
	c, err := server.Configure(storekit.ToOpen, defaultRoot, []redis.Option(nil))
	if err != nil {
		t.Fatal(err)
	}
	at, err := server.Parse(servers.Redis(t).Addrs()[0], c)
	if err != nil {
		t.Fatal(err)
	}
	a, err := newAcceptor(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.Inspect(t.Context()); err != nil {
		t.Fatal(err)
	}
	m, err := a.Recall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	redistest.CLI(t, a.Address, "FLUSHALL")
	if err := a.Rehearse(t.Context(), m); !errors.Is(err, register.ErrForgot) {
		t.Fatalf("the rehearsal on an emptied server: %v", err)
	}
	before := member{acceptor: a, memory: m}
	if err := before.ask(t.Context()); !errors.Is(err, register.ErrForgot) { // nor is it one that has never voted
		t.Fatalf("what an emptied server says of its vote: %v", err)
	}
	if err := a.ready(t.Context()); err != nil {
		t.Errorf("checked again: %v", err)
	}
}

func TestAQuorumThatHasForgottenIsFoundedAnew(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3))
	q := openOn(t, cluster)
	redistest.Put(t, q, "a", "one")
	before := redistest.Remembered(t, q)
	for i := range 3 {
		redistest.CLI(t, cluster.Addrs()[i], "FLUSHALL")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := q.Read(ctx, "a"); err == nil {
		t.Error("it was read although all have forgotten")
	}
	other := openOn(t, cluster)
	storecheck.Eventually(t, "to know that all was forgotten", func() bool {
		_, err := q.Read(t.Context(), "a")
		if err == nil {
			t.Fatal("it went on with another group")
		}
		return errors.Is(err, register.ErrForgot)
	})
	redistest.CLI(t, cluster.Addrs()[0], "FLUSHALL")
	if err := q.Heal(redistest.Within(t, 20*time.Second)); !errors.Is(err, register.ErrForgot) {
		t.Errorf("it heals a group that it does not know: %v", err)
	}
	after := redistest.Remembered(t, q)
	if after.ID == before.ID || after.ID != redistest.Remembered(t, other).ID || after.For > 10*time.Second {
		t.Errorf("%v, then %v", before, after)
	}
	if it := redistest.Read(t, q, "a"); !it.Version.IsZero() {
		t.Errorf("it holds %v", it)
	}
}

// A value that is given to a server that has missed it is as old there as it is: a session must not seem to have been renewed
// by somebody who looks at it.
func TestWhatIsWrittenBackKeepsItsAge(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3), servers.AppendOnly("always"))
	q := openOn(t, cluster)
	redistest.Put(t, q, "a", "before")
	cluster.Member(2).Kill()
	since := time.Now()
	redistest.Put(t, q, "a", "one")
	sure := time.Now()
	cluster.Member(2).Restart(t)
	storecheck.Eventually(t, "all to vote", func() bool { return voters(q) == 3 })
	time.Sleep(500 * time.Millisecond)
	for _, away := range []int{0, 1} { // one of two knows of it; then neither of these need be the one that knew
		cluster.Member(away).Kill()
		other := openOn(t, cluster)
		least := time.Since(sure) // less what the requests take, however busy the machine is
		if it := redistest.Read(t, other, "a"); string(it.Value) != "one" || it.Age < least-250*time.Millisecond || it.Age > time.Since(since) {
			t.Errorf("without server %d it holds %q, %v old, and %v to %v have gone by", away, it.Value, it.Age, least, time.Since(since))
		}
		cluster.Member(away).Restart(t)
		storecheck.Eventually(t, "all to vote", func() bool { return voters(q) == 3 })
	}
}

// Of two ages of one content the smaller counts: whoever is renewed must not be taken for dead.
func TestTheSmallestAgeCounts(t *testing.T) {
	at := newBallot(1)
	of := func(at ballot, id byte, age time.Duration) vote {
		return vote{accepted: accepted{ballot: at, content: content{id: register.Version{id}}, age: age}}
	}
	earlier := of(newBallot(0), 2, time.Millisecond)
	for _, votes := range [][]vote{
		{of(at, 1, time.Second), of(at, 1, time.Minute), earlier},
		{earlier, of(at, 1, time.Minute), of(at, 1, time.Second)},
	} {
		if got := latest(votes); got.content.id != votes[1].accepted.content.id || got.age != time.Second {
			t.Errorf("%v old, from %v", got.age, got.content.id)
		}
	}
}

// When others stand in the way, one that is frozen holds nobody up for the rest of the round.
func TestARoundThatIsRefusedDoesNotWaitForTheLast(t *testing.T) {
	q := openOn(t, servers.Redis(t, servers.Members(3)))
	storecheck.Eventually(t, "all to vote", func() bool { return voters(q) == 3 })
	begun := time.Now()
	_, err := q.poll(t.Context(), func(ctx context.Context, _ *roster, a *acceptor) vote {
		if a == q.all[2] {
			<-ctx.Done()
		}
		return vote{from: a, refused: true}
	})
	if took := time.Since(begun); err != errRefused || took > roundLimit/2 {
		t.Errorf("%v, after %v", err, took)
	}
}

func TestManyFoundOneGroup(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(5))
	var mu sync.Mutex
	groups := make(map[string]int)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			q, err := Open(redistest.Within(t, 20*time.Second), cluster.Addrs())
			if err != nil {
				t.Error(err)
				return
			}
			defer q.Close()
			mu.Lock()
			defer mu.Unlock()
			groups[q.roster.Load().group]++
		})
	}
	all.Wait()
	if len(groups) != 1 {
		t.Errorf("%v", groups)
	}
}

// Eight clients count, each by reading and swapping, while acceptors fail in turn. No two may get the same number, and none
// may be lost.
func TestCountersOnAQuorumAgree(t *testing.T) {
	for _, how := range []string{"all well", "stopped", "killed", "emptied"} {
		t.Run(how, func(t *testing.T) {
			cluster := servers.Redis(t, servers.Members(3), servers.AppendOnly("always"))
			for _, a := range cluster.Addrs() {
				redistest.CLI(t, a, "PING")
			}
			stop := make(chan struct{})
			var meddling sync.WaitGroup
			healer := openOn(t, cluster)
			meddling.Go(func() { meddle(t, how, cluster, healer, stop) })
			count(t, 4*time.Second, func(int) *Store { return openOn(t, cluster) })
			close(stop)
			meddling.Wait()
		})
	}
}

func meddle(t *testing.T, how string, cluster *servers.Cluster, healer *Store, stop <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(rand.N(100 * time.Millisecond)):
		}
		m := cluster.Member(rand.IntN(3))
		switch how {
		case "stopped":
			also := cluster.Member(rand.IntN(3)) // now and then there is no majority
			m.Freeze()
			also.Freeze()
			time.Sleep(rand.N(150 * time.Millisecond))
			m.Thaw()
			also.Thaw()
		case "killed":
			m.Kill()
			time.Sleep(rand.N(150 * time.Millisecond))
			m.Restart(t)
		case "emptied":
			redistest.CLI(t, m.Addr(), "FLUSHALL")
			if err := healer.Heal(redistest.Within(t, 20*time.Second)); err != nil {
				t.Errorf("heal: %v", err)
				return
			}
		}
	}
}

func count(t *testing.T, length time.Duration, open func(i int) *Store) {
	t.Helper()
	var mu sync.Mutex
	seen := make(map[uint64]int)
	var ok, conflicts, doubtful int
	var highest uint64
	why := make(map[bool]int)
	number := func(it register.Item) uint64 {
		if it.Version.IsZero() {
			return 0
		}
		return binary.BigEndian.Uint64(it.Value)
	}
	var all sync.WaitGroup
	for i := range 8 {
		q := open(i)
		all.Go(func() {
			var it register.Item
			for end := time.Now().Add(length); time.Now().Before(end); {
				next := number(it) + 1
				ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
				got, err := q.Swap(ctx, register.Swap{Key: "counter", Old: it.Version, Next: register.NewVersion(),
					Value: binary.BigEndian.AppendUint64(nil, next)})
				cancel()
				mu.Lock()
				switch {
				case err == nil:
					ok++
					if other, dup := seen[next]; dup {
						t.Errorf("%d was given to %d and to %d", next, other, i)
					}
					seen[next] = i
					highest = max(highest, next)
					it = got
				case errors.Is(err, register.ErrConflict):
					conflicts++
					if number(got) < next-1 {
						t.Errorf("it went back from %d to %d", next-1, number(got))
					}
					it = got
				default:
					doubtful++
					why[errors.Is(err, errOpen)]++
				}
				mu.Unlock()
				if err == nil || errors.Is(err, register.ErrConflict) {
					continue
				}
				ctx, cancel = context.WithTimeout(context.Background(), 200*time.Millisecond)
				if got, err := q.Read(ctx, "counter"); err == nil {
					if number(got) < next-1 {
						t.Errorf("a read went back from %d to %d", next-1, number(got))
					}
					it = got
				}
				cancel()
			}
		})
	}
	all.Wait()
	final := number(redistest.Read(t, open(0), "counter"))
	shares := make([]int, 8)
	for _, i := range seen {
		shares[i]++
	}
	t.Logf("%d swaps, shares %v, %d conflicts, %d left open; the counter stands at %d; of %d of them others had swapped too often", ok, shares, conflicts, doubtful, final, why[true])
	if final < uint64(ok) || final > uint64(ok+doubtful) || final < highest {
		t.Errorf("%d swaps and %d left open, the highest is %d, and it stands at %d", ok, doubtful, highest, final)
	}
	if ok < 20 {
		t.Errorf("%d swaps show nothing", ok)
	}
}

// A swap that fills an empty register was applied without its proposer's hearing of it, and somebody has emptied the register again. It
// then looks as it did before.
func TestASwapOfAnEmptyRegisterIsAppliedOnce(t *testing.T) {
	for _, again := range []bool{false, true} { // it is tried again within one call, or in another
		w := &swapping{Swap: register.Swap{Key: "a", Next: register.NewVersion(), Value: []byte("x")}}
		applied, _ := w.edit(content{}, false)
		if again {
			w = &swapping{Swap: w.Swap, again: true}
		}
		gone := applied.after(register.Swap{Key: "a", Old: applied.version})
		if got, _ := w.edit(gone, !again); got.id != gone.id || w.outcome != errApplied {
			t.Errorf("again %v: it makes %q, %v", again, got.value, w.outcome)
		}
	}
}

// One server says that it has promised the last ballot that there is. That must not get to the others, where no ballot would be higher.
func TestABallotThatNobodyCanHaveIsNotBelieved(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3))
	q := openOn(t, cluster)
	redistest.Put(t, q, "a", "one")
	nines := strings.Repeat("9", ballotSize)
	for _, key := range []string{"a", "b"} {
		redistest.CLI(t, cluster.Addrs()[0], "SETRANGE", "turnwise-quorum:"+key, "0", nines+strings.Repeat("0", 48)[:map[string]int{"a": 0, "b": 48}[key]])
		redistest.CLI(t, cluster.Addrs()[0], "ZADD", "turnwise-quorum.keys", "0", "turnwise-quorum:"+key)
	}
	redistest.CLI(t, cluster.Addrs()[0], "SET", "turnwise-quorum.floor", nines)
	other := openOn(t, cluster)
	for _, key := range []string{"a", "b", "c"} {
		for range 3 {
			redistest.Put(t, q, key, "two")
			redistest.Put(t, other, key, "three")
		}
		for _, a := range cluster.Addrs()[1:] {
			if promised := redistest.CLI(t, a, "GETRANGE", "turnwise-quorum:"+key, "0", "31"); promised > strings.Repeat("0", 8) {
				if promised[:6] != "000000" {
					t.Errorf("%s: %s has promised %s", key, a, promised)
				}
			}
		}
	}
}

// One server names a ballot just below the last one, of a register and as its floor. When several processes disturb each other, who
// loses goes beyond what has refused him: with that, the others would promise a ballot that nobody can exceed, and keep it.
func TestABallotNearTheEndThatOneServerNamesIsNotBelieved(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3))
	first := openOn(t, cluster)
	redistest.Put(t, first, "a", "one")
	high := ballot{ballotEnd - 1, 1}.String()
	redistest.CLI(t, cluster.Addrs()[0], "SETRANGE", "turnwise-quorum:a", "0", high)
	redistest.CLI(t, cluster.Addrs()[0], "SET", "turnwise-quorum.floor", high)
	all := []*Store{first, openOn(t, cluster), openOn(t, cluster)}
	for _, key := range []string{"a", "b"} {
		var under sync.WaitGroup
		for _, s := range all {
			under.Go(func() {
				ctx := redistest.Within(t, 60*time.Second)
				for range 100 {
					it, err := s.Read(ctx, key)
					if err == nil {
						_, err = s.Swap(ctx, register.Swap{Key: key, Old: it.Version, Next: register.NewVersion(), Value: []byte("x")})
					}
					if err != nil && !errors.Is(err, register.ErrConflict) && !errors.Is(err, errOpen) { // one that stands still is passed by many
						t.Errorf("%s: %v", key, err)
						return
					}
				}
			})
		}
		under.Wait()
		for _, a := range cluster.Addrs()[1:] {
			if b := parseBallot(redistest.CLI(t, a, "GETRANGE", "turnwise-quorum:"+key, "0", "31")); !b.isLikely() {
				t.Errorf("%s: %s has promised %v", key, a, b)
			}
		}
	}
}

func TestWhichBallotTheNextRoundHasToExceed(t *testing.T) {
	low, more, end := ballot{5, 1}, ballot{9, 1}, ballot{ballotEnd - 1, 1}
	for name, c := range map[string]struct {
		yes    int
		higher []ballot
		want   ballot
	}{
		"nobody refused":                  {2, nil, ballot{}},
		"two of three":                    {0, []ballot{more, low}, more},
		"one is enough":                   {1, []ballot{more, low}, low},
		"one names the end":               {0, []ballot{end, low}, low},
		"one names the end, and no other": {1, []ballot{end}, ballot{}},
		"a majority names the end":        {0, []ballot{end, ballot{ballotEnd - 2, 1}, low}, ballot{ballotEnd - 2, 1}},
	} {
		if got := (&tally{yes: make([]vote, c.yes), higher: c.higher}).toExceed(2); got != c.want {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
	}
}

// A swap makes a register. It was applied, and nobody has heard of that: who proposed it was stopped. Meanwhile the register has been
// swapped more often than it knows of, and is empty again.
func TestASwapThatNobodyRemembersIsNotAppliedAgain(t *testing.T) {
	for _, others := range []int{0, 1, 2, pastSize - 2, pastSize - 1, pastSize, pastSize + 1, 3 * pastSize} {
		for applied := range 2 {
			w := &swapping{Swap: register.Swap{Key: "a", Next: register.NewVersion()}}
			now, _ := w.edit(content{}, false)
			if applied == 0 {
				now = content{}
			}
			for range others {
				now = now.after(register.Swap{Key: "a", Next: register.NewVersion()})
			}
			if others > 0 {
				now = now.after(register.Swap{Key: "a"})
			}
			next, _ := w.edit(now, true)
			switch {
			case next.id != now.id && applied == 1:
				t.Errorf("after %d others it is applied again", others)
			case others < pastSize-1 && applied == 0 && next.id == now.id:
				t.Errorf("after %d others it is not applied: %v", others, w.outcome)
			case next.id == now.id && w.outcome == nil && others > 0:
				t.Errorf("after %d others it counts as what stands there", others)
			}
		}
	}
}

// Of a swap that one server alone has accepted, nobody knows whether it counts. Once somebody has read it, it does, also for those
// who do not ask that server.
func TestWhatSomebodyHasReadStands(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3))
	q, other := openOn(t, cluster), openOn(t, cluster)
	storecheck.Eventually(t, "all to vote", func() bool { return voters(q) == 3 && voters(other) == 3 })
	redistest.Put(t, q, "a", "before")
	votes, err := q.look(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	now := latest(votes)
	half := accepted{ballot: newBallot(now.ballot.count + 1000), content: now.content.after(register.Swap{Next: register.NewVersion(), Value: []byte("half")})}
	if v := q.accept("a", half)(t.Context(), q.roster.Load(), q.all[0]); v.err != nil || v.refused {
		t.Fatalf("%+v", v)
	}
	for _, c := range []struct {
		away  int // who is not asked
		store *Store
	}{{2, q}, {0, other}} {
		cluster.Member(c.away).Freeze()
		if it := redistest.Read(t, c.store, "a"); string(it.Value) != "half" {
			t.Errorf("without server %d it holds %q", c.away, it.Value)
		}
		cluster.Member(c.away).Thaw()
	}
}
