package trace

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// Each of these overlaps with all others, and is in nobody's way.
func TestManyThatOverlapAreJudgedInNoTime(t *testing.T) {
	for name, kinds := range map[string][]string{
		"readers": {"R"}, "permits": {"S1of100000"}, "heavy permits": {"Q3of1000000", "Q2of1000000"},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 20_000
			w := []*witness{on("m", "a"), on("m", "b"), on("n", "c")}
			for i := range n {
				w[i%3].had(i+1, kinds[i%len(kinds)], 20*i+n, 2_000_000+20*i)
			}
			began := time.Now()
			v := verdict(t, w...)
			took := time.Since(began)
			if t.Log(took); took > 30*time.Second { // the first version took minutes
				t.Errorf("it took %v", took)
			}
			if len(v.Wrong) > 0 {
				t.Error(len(v.Wrong), "things are wrong, such as", v.Wrong[0])
			}
			assert.Equal(t, n, v.Turns)
		})
	}
}

// simply finds the conflicts as their definition has it, looking at all pairs.
func (a *Audit) simply(turns []*turn, ordered bool, add func(Fault, string)) {
	turns = slices.Clone(turns)
	slices.SortStableFunc(turns, func(x, y *turn) int {
		if ordered {
			return cmp.Compare(x.token, y.token)
		}
		return cmp.Compare(x.granted.wall, y.granted.wall)
	})
	clocks := map[string]int{}
	for i, t := range turns {
		if t.hasBegin && known(t.kind) {
			type found struct {
				*turn
				clock, added int
				at           int64
			}
			var way []found
			for j, e := range turns[:i] {
				if e.hasEnd && (ordered || e.hasBegin) && a.inTheWay(e, t, ordered) {
					at := e.ended.wall
					if e.ended.clock == t.granted.clock {
						at = e.ended.ticks
					}
					way = append(way, found{e, clocks[e.ended.clock], j, at})
				}
			}
			slices.SortFunc(way, func(x, y found) int {
				return cmp.Or(cmp.Compare(x.clock, y.clock), cmp.Compare(y.at, x.at), cmp.Compare(x.added, y.added))
			})
			var ahead []*turn
			for _, f := range way {
				if !a.enough(t, ahead) {
					ahead = append(ahead, f.turn)
				}
			}
			a.judge(t, ahead, add)
		}
		if t.hasEnd && (ordered || t.hasBegin) {
			if _, ok := clocks[t.ended.clock]; !ok {
				clocks[t.ended.clock] = len(clocks)
			}
		}
	}
}

func TestTheSameIsFoundAsByLookingAtAllPairs(t *testing.T) {
	total, agreed := 0, 0
	for seed := range uint64(400) {
		a, lines := invented(t, seed)
		for n, turns := range lines {
			ordered := a.tokens(turns, func(Fault, string) {})
			type finding struct {
				what Fault
				text string
			}
			var got, want []finding
			a.conflicts(turns, ordered, func(what Fault, text string) { got = append(got, finding{what, text}) })
			a.simply(turns, ordered, func(what Fault, text string) { want = append(want, finding{what, text}) })
			total++
			if len(want) > 0 {
				agreed++
			}
			require.Equal(t, want, got, "seed %d, line %v", seed, n)
		}
	}
	t.Log(agreed, "of", total, "lines had conflicts")
	if agreed < total/10 || agreed == total {
		t.Errorf("of %d lines %d had conflicts: the traces are too simple", total, agreed)
	}
}

// invented are random traces, in which much is wrong.
func invented(t *testing.T, seed uint64) (*Audit, map[name][]*turn) {
	random := rand.New(rand.NewPCG(seed, 1))
	a := NewAudit(time.Duration(random.IntN(3)) * 20 * time.Millisecond)
	kinds := [][]string{{"R", "R", "R", "W"}, {"lock"}, {"S1of3", "S2of3", "S1of2"}, {"R", "W", "S1of4", "lock", "strange"}, {"Q1of20", "Q7of20"}}[random.IntN(5)]
	crowd, length := 1+random.IntN(4), 1+random.IntN(60)
	var w []*witness
	for i := range crowd {
		one := on([]string{"m", "n"}[random.IntN(2)], fmt.Sprint(i))
		one.wrong = random.IntN(10)
		w = append(w, one)
	}
	ordered := random.IntN(4) > 0
	for i := range 40 {
		token, kind := i+1, kinds[random.IntN(len(kinds))]
		if !ordered && random.IntN(10) == 0 {
			token = 1 + random.IntN(40)
		}
		from := 10*i + random.IntN(10)
		to := from + 1 + random.IntN(length)
		by := w[random.IntN(crowd)]
		switch random.IntN(12) {
		case 0:
			by.says(from, granted, token, kind) // killed
		case 1:
			by.says(to, released, token, kind)
		case 2:
			by.says(from, granted, token, "W").says(from+(to-from)/2, amended, token, "R").says(to, lost, token, "R")
		default:
			by.had(token, kind, from, to)
		}
	}
	for _, one := range w {
		if one.text.Len() > 0 {
			require.NoError(t, a.Read(one.name, strings.NewReader(one.text.String())))
		}
	}
	return a, a.turns()
}

func BenchmarkOverlappingReaders(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			a := NewAudit(DefaultSkew)
			var turns []*turn
			for i := range n {
				at := func(ms int) moment { return moment{int64(ms) * 1e6, "m", int64(ms) * 1e6} }
				turns = append(turns, &turn{token: coord.Token(i), kind: rules.Reader, last: rules.Reader, hasBegin: true, hasEnd: true,
					granted: at(i), ended: at(n + i)})
			}
			for b.Loop() {
				a.conflicts(turns, true, func(Fault, string) { b.Fatal("a conflict") })
			}
		})
	}
}

// Those who were let in last may end first: then each end comes before all that are known.
func TestEndsThatComeTheOtherWayRoundArePutInPlaceInNoTime(t *testing.T) {
	const n = 300_000
	var l list
	began := time.Now()
	for i := range n {
		l.add(entry{at: int64(n - i), added: i})
	}
	if took := time.Since(began); took > 30*time.Second { // in one piece they took minutes
		t.Errorf("it took %v", took)
	}
	assert.Equal(t, n-100, l.after(100))
	assert.Equal(t, 0, l.after(n))
	r := l.rest()
	for i := range n {
		e, ok := r.last()
		if !ok || e.at != int64(n-i) {
			t.Fatalf("the %dth from the end is %v, %v", i, e.at, ok)
		}
		r.pass()
	}
	if e, ok := r.last(); ok {
		t.Errorf("there is one more: %v", e.at)
	}
}

// A list is in order, and of those at the same time the first is the last, wherever its blocks end.
func TestAListIsInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, times := range []int64{1, 50, 1 << 40} {
		var l list
		var all []entry
		for i := range 5 * mostInBlock {
			e := entry{at: random.Int64N(times), added: i}
			l.add(e)
			all = append(all, e)
		}
		slices.SortFunc(all, func(x, y entry) int { return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(y.added, x.added)) })
		assert.Equal(t, all, slices.Concat(l.blocks...))
		for range 100 {
			at := random.Int64N(times + 1)
			later := slices.DeleteFunc(slices.Clone(all), func(e entry) bool { return e.at <= at })
			assert.Equal(t, len(later), l.after(at))
		}
	}
}
