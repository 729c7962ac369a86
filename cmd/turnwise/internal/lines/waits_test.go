package lines

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/internal/attempt"
)

// scene makes lines of texts such as "a: P Q R:W" where P, Q and R stand in line a, R to write. Without a kind they want a lock.
func scene(asOf time.Time, texts ...string) (lines []standing) {
	for _, text := range texts {
		name, who, _ := strings.Cut(text, ": ")
		l := standing{name: name, asOf: asOf}
		for i, w := range strings.Fields(who) {
			owner, kind, ok := strings.Cut(w, ":")
			if !ok {
				kind = rules.Lock
			}
			n := coord.Node{Line: name, ID: fmt.Sprint(name, i), Kind: kind, Token: coord.Token(i + 1)}
			if owner != "?" {
				n.Owner = coord.Owner{Host: owner, PID: 1}
			}
			l.all = append(l.all, n)
		}
		for i, turn := range rules.Turns(l.all) {
			l.all[i].Holds = turn
		}
		lines = append(lines, l)
	}
	return lines
}

// look looks at lines twice, the second time as read later.
func look(texts ...string) []Circle {
	start := time.Now()
	_, once, _, rings := assess(scene(start, texts...), nil, start.Add(time.Second))
	if len(once) > 0 {
		return append(once, Circle{Waits: []Wait{{Line: "it was believed at the first look"}}})
	}
	_, twice, _, _ := assess(scene(start.Add(2*time.Second), texts...), rings, start.Add(3*time.Second))
	return twice
}

func TestWhoGoesRoundInACircle(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		want  []string
	}{
		"nobody waits":           {[]string{"a: P", "b: Q"}, nil},
		"a chain":                {[]string{"a: P Q", "b: Q R", "c: R S"}, nil},
		"two":                    {[]string{"a: P Q", "b: Q P"}, []string{"P>Q in b", "Q>P in a"}},
		"two, and one who waits": {[]string{"a: P X Q", "b: Q P"}, []string{"P>Q in b", "Q>X in a", "X>P in a"}},
		"three":                  {[]string{"a: P Q", "b: Q R", "c: R P"}, []string{"P>R in c", "Q>P in a", "R>Q in b"}},
		"behind a circle":        {[]string{"a: P Q X", "b: Q P"}, []string{"P>Q in b", "Q>P in a"}},
		"two circles": {[]string{"a: P Q", "b: Q P", "c: R S", "d: S R"},
			[]string{"P>Q in b", "Q>P in a", "R>S in d", "S>R in c"}},
		"two threads of one":            {[]string{"a: P P", "b: P P"}, nil},
		"another thread of the holder":  {[]string{"a: P Q P"}, nil},
		"another thread, and two lines": {[]string{"a: P Q P", "b: P Q"}, nil},
		"own threads between":           {[]string{"a: P P Q", "b: Q Q P"}, []string{"P>Q in b", "Q>P in a"}},
		"who does not say who it is":    {[]string{"a: ? Q", "b: Q ?"}, nil},
		"readers beside each other":     {[]string{"a: P:R Q:R", "b: Q:R P:R"}, nil},
		"a writer behind a reader":      {[]string{"a: P:R Q:W", "b: Q:R P:W"}, []string{"P>Q in b", "Q>P in a"}},
		"a permit that another has":     {[]string{"a: P:S1of2 X:S1of2 Q:S1of2", "b: Q P"}, nil},
		"no permit that another has":    {[]string{"a: P:S1of2 P:S1of2 Q:S1of2", "b: Q P"}, []string{"P>Q in b", "Q>P in a"}},
		"a permit of one in a circle": {[]string{"a: P:S1of2 X:S1of2 Q:S1of2", "b: Q P", "c: Q X"},
			[]string{"P>Q in b", "Q>P in a", "Q>X in a", "X>Q in c"}},
		"a line nested in another one": {[]string{"a: P Q", "a/b: Q P"}, []string{"P>Q in a/b", "Q>P in a"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, circle := range look(c.lines...) {
				for _, w := range circle.Waits {
					assert.NotEmpty(t, w.Token, "so that somebody can break it")
					got = append(got, fmt.Sprintf("%s>%s in %s", strings.TrimSuffix(w.From, "/1"), strings.TrimSuffix(w.To, "/1"), w.Line))
				}
			}
			slices.Sort(got)
			assert.Equal(t, c.want, got)
		})
	}
}

// Lines are read one after another. What never existed at a single moment is no circle.
func TestACircleIsOneWhenAllWasReadAgain(t *testing.T) {
	start := time.Now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	lines := scene(at(0), "a: P Q", "b: Q P")
	_, found, _, rings := assess(lines, nil, at(1))
	require.Empty(t, found)
	lines[0].asOf = at(2)
	_, found, _, rings = assess(lines, rings, at(3))
	require.Empty(t, found, "b was not read again")
	lines[1].asOf = at(4)
	_, found, stuck, rings := assess(lines, rings, at(5))
	require.Len(t, found, 1)
	assert.WithinDuration(t, at(1), found[0].Since, time.Millisecond)
	assert.Equal(t, map[string]bool{"P/1": true, "Q/1": true}, stuck)

	// One of them comes again, which makes it another circle.
	lines[1].all[1].ID = "another"
	_, found, _, _ = assess(lines, rings, at(6))
	assert.Empty(t, found)
}

// A process that was started under a lock stands for the one that has it.
func TestAProcessCountsAsTheOneThatStartedIt(t *testing.T) {
	if parent(os.Getpid()) == 0 {
		t.Skip("not known on this system")
	}
	child := exec.Command("sleep", "100")
	require.NoError(t, child.Start())
	defer child.Wait()
	defer child.Process.Kill()
	host, err := os.Hostname()
	require.NoError(t, err)
	lines := scene(time.Now(), "a: P Q", "b: Q P")
	lines[0].all[0].Owner = coord.Owner{Host: host, PID: os.Getpid(), Label: "outer"}
	lines[1].all[1].Owner = coord.Owner{Host: host, PID: child.Process.Pid, Label: "inner"}
	g := newGraph(lines)
	us := who{host, os.Getpid()}.String()
	assert.Equal(t, map[string]bool{us: true, "Q/1": true}, g.stuck())
	assert.Equal(t, "outer", g.owners[us].label)

	lines[1].all[1].Owner.Host = "elsewhere"
	assert.Empty(t, newGraph(lines).stuck(), "the same number on another machine")
}

// What is shown of a service with many lines stays small, whatever stands there, and does not take long.
func TestManyWaits(t *testing.T) {
	var texts []string
	dice := rand.New(rand.NewPCG(1, 2))
	for i := range 2000 {
		text := fmt.Sprintf("line%04d:", i)
		for range 30 {
			text += fmt.Sprintf(" P%d", dice.IntN(3000))
		}
		texts = append(texts, text)
	}
	lines := scene(time.Now(), texts...)
	var g *graph
	var rings map[string]ring
	took := attempt.Computing(func() { g, _, _, rings = assess(lines, nil, time.Now()) })
	assert.NotEmpty(t, rings)
	assert.Len(t, g.waits(nil), mostWaits)
	assert.Less(t, took, 30*time.Second)

	// The chain is as long as possible.
	texts = nil
	for i := range mostRead {
		texts = append(texts, fmt.Sprintf("line%04d: P%d P%d", i, i, i+1))
	}
	lines = scene(time.Now(), texts...)
	took = attempt.Computing(func() { _, _, _, rings = assess(lines, nil, time.Now()) })
	assert.Empty(t, rings)
	assert.Less(t, took, 30*time.Second)
}

// Who may write one line may say that he is many there, who wait for each other in whatever way. That keeps nobody from seeing the others.
func TestALineOfAStrangerCostsLittleToThinkAbout(t *testing.T) {
	pairs, permits := "his:", "his:"
	for i := range 500 {
		pairs += fmt.Sprintf(" P%d P%d", i, i)
		permits += fmt.Sprintf(" P%d:S1of500", i)
	}
	for i := range 500 {
		permits += fmt.Sprintf(" P%d:S2of500", i)
	}
	for name, his := range map[string]string{"each goes on after the one ahead": pairs, "all have a permit and want two more": permits} {
		t.Run(name, func(t *testing.T) {
			var found []Circle
			took := attempt.Computing(func() { found = look(his, "a: X Y", "b: Y X") })
			assert.Less(t, took, 30*time.Second)
			require.NotEmpty(t, found)
			theirs := found[len(found)-1]
			assert.Len(t, theirs.Waits, 2)
			assert.Zero(t, theirs.More)
			if found = found[:len(found)-1]; his == permits {
				require.Len(t, found, 1)
				assert.Equal(t, mostWaits, len(found[0].Waits))
				assert.Equal(t, 500*Few-mostWaits, found[0].More)
			} else {
				assert.Empty(t, found)
			}
		})
	}
}

// What takes too long to think about is left out, and no circle is made up.
func TestATangledLineHidesNoOther(t *testing.T) {
	lines := scene(time.Now(), "a: P Q", "b: Q P", "his: V W", "c: W V")
	g := newGraph(lines)
	g.lines[2].steps = mostSteps
	assert.Equal(t, map[string]bool{"P/1": true, "Q/1": true}, g.stuck())
	assert.False(t, g.lines[0].tangled())
	assert.True(t, g.lines[2].tangled())
}

// Owners that are left do not go on by the definition either, which asks each rule again until nothing changes.
func TestStuckIsWhatItSays(t *testing.T) {
	dice := rand.New(rand.NewPCG(3, 4))
	kinds := []string{rules.Lock, rules.Reader, rules.Reader, rules.Writer, "S1of2", "S2of3", "Q1of9"}
	circular := 0
	for range 3000 {
		var texts []string
		for i := range 2 + dice.IntN(4) {
			text := fmt.Sprint("line", i, ":")
			for range dice.IntN(6) {
				text += fmt.Sprintf(" P%d:%s", dice.IntN(6), kinds[dice.IntN(len(kinds))])
			}
			texts = append(texts, text+" ")
		}
		lines := scene(time.Now(), texts...)
		want := make(map[string]bool)
		for _, l := range lines {
			for _, n := range l.all {
				want[who{n.Owner.Host, 1}.String()] = true
			}
		}
		for changed := true; changed; {
			changed = false
			for id := range want {
				if !slices.ContainsFunc(lines, func(l standing) bool { return waitsIn(l.all, id, want) }) {
					delete(want, id)
					changed = true
				}
			}
		}
		g := newGraph(lines)
		got := g.stuck()
		for id := range want {
			require.True(t, got[id], "%s goes on, in %q", id, texts)
		}
		require.Len(t, got, len(want), "%q", texts)
		found := circles(g.links(got))
		require.Equal(t, len(want) > 0, len(found) > 0, "%q", texts)
		if len(found) > 0 {
			circular++
		}
	}
	assert.Greater(t, circular, 300)
	assert.Less(t, circular, 2700)
}

// waitsIn reports whether an owner waits in a line where only those in left do not go on. Where a hold of its own would keep it
// waiting for ever, it is another thread that waits.
func waitsIn(line []coord.Node, id string, left map[string]bool) bool {
	for i, n := range line {
		owner := who{n.Owner.Host, 1}.String()
		if owner == id && !n.Holds {
			var others, own []coord.Node
			for _, a := range line {
				if a.Holds && (who{a.Owner.Host, 1}).String() == id {
					own = append(own, a)
				}
			}
			if slices.ContainsFunc(own, func(h coord.Node) bool { return len(rules.For(n.Kind)(n, []coord.Node{h})) > 0 }) {
				continue
			}
			for _, a := range line[:i] {
				if o := (who{a.Owner.Host, 1}).String(); o != id && left[o] {
					others = append(others, a)
				}
			}
			if len(rules.For(n.Kind)(n, others)) > 0 {
				return true
			}
		}
	}
	return false
}
