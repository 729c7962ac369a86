package register

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/internal/attempt"
)

// What a swap tells is what the rules say: each node is told whose rule waited for one that has gone, and nobody else,
// except the one behind it in a semaphore's line, and those whose rule nobody knows.
func TestNewsOfARandomLine(t *testing.T) {
	kinds := []string{rules.Lock, rules.Writer, rules.Reader, rules.Reader, rules.Reader, "S1of3", "S2of3", "S1of4", "Q1of12", "Q2of12", "G1of12", "unheard"}
	for seed := range uint64(20_000) {
		random := rand.New(rand.NewPCG(seed, 2))
		some := kinds[random.IntN(len(kinds)):]
		before := newDraft(nil)
		before.next = firstToken(1)
		for n := range random.IntN(12) {
			before.join(sessionID{byte(n % 3)}, publicKey{1}, uint64(n), some[random.IntN(len(some))], driver.Owner{}, nil, 0)
		}
		l := before.line
		d := newDraft(&l)
		changed := map[uint64]bool{}
		for range 1 + random.IntN(3) {
			if d.count == 0 {
				break
			}
			at, i := random.IntN(d.count), 0
			for n := range d.nodes() {
				if i++; i-1 != at || changed[n.n] {
					continue
				}
				if changed[n.n] = true; random.IntN(4) == 0 {
					d.amend(n, some[random.IntN(len(some))], nil, 0)
				} else {
					d.remove(1, left, func(m node) bool { return m.token == n.token })
				}
				break
			}
		}
		want := map[string]bool{}
		anyGone := false
		ahead, now := []driver.Node{}, []driver.Node{}
		for n := range l.nodes() {
			me := l.brief("", n)
			nearest := len(ahead) > 0 && ahead[len(ahead)-1].Data != nil && rules.IsPermits(me.Kind)
			far := anyGone && me.Kind == "unheard"
			if !changed[n.n] && (nearest || far || slices.ContainsFunc(rules.For(me.Kind)(me, ahead), func(w driver.Node) bool { return w.Data != nil })) {
				free := !slices.ContainsFunc(now, func(a driver.Node) bool { return me.Kind != rules.Reader || a.Kind != rules.Reader })
				want[fmt.Sprintf("%d %v", n.n, free)] = true
			}
			if stands, ok := d.find(l.members[n.member].id, n.n); ok {
				now = append(now, d.brief("", stands))
			}
			if changed[n.n] {
				anyGone, me.Data = true, []byte("it has gone")
			}
			ahead = append(ahead, me)
		}
		got := map[string]bool{}
		for _, all := range d.news() {
			for _, n := range all {
				got[fmt.Sprintf("%d %v", n.n, n.what == yourTurn)] = true
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			var was []string
			for n := range l.nodes() {
				was = append(was, fmt.Sprintf("%d:%s:%v", n.n, l.kinds[n.kind], changed[n.n]))
			}
			t.Fatalf("seed %d, %v: told %v, want %v", seed, was, got, want)
		}
	}
}

// Of those whose rule nobody knows, not thousands are told.
func TestNewsOfManyWhoseRuleIsNotKnown(t *testing.T) {
	before := newDraft(nil)
	before.next = firstToken(1)
	for n := range uint64(5000) {
		before.join(sessionID{1}, publicKey{1}, n, "unheard", driver.Owner{}, nil, 0)
	}
	l := before.line
	d := newDraft(&l)
	d.remove(1, left, func(m node) bool { return m.n == 10 })
	told := map[uint64]bool{}
	for _, all := range d.news() {
		for _, n := range all {
			told[n.n] = true
		}
	}
	if len(told) > mostOthers+1 || !told[11] || !told[12] || told[9] {
		t.Errorf("%d are told", len(told))
	}
}

// A release of one of many thousands tells nobody, and takes no time for that.
func TestNewsOfManyWhoHaveTheirTurn(t *testing.T) {
	before := newDraft(nil)
	before.next = firstToken(1)
	for n := range 20_000 {
		before.join(sessionID{1}, publicKey{1}, uint64(n), rules.Permits(1, 100_000), driver.Owner{}, nil, 0)
	}
	l := before.line
	d := newDraft(&l)
	d.remove(1, left, func(node) bool { return true })
	if took := attempt.Computing(func() { d.news() }); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}
