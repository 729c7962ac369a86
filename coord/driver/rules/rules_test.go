package rules

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/turnwise/turnwise/coord/driver"
)

// line makes the nodes of a line from their kinds, with tokens from 1 on.
func line(kinds string) (nodes []driver.Node) {
	for i, k := range strings.Fields(kinds) {
		nodes = append(nodes, driver.Node{Kind: k, Token: driver.Token(i + 1)})
	}
	return nodes
}

func TestWhomEachWaitsFor(t *testing.T) {
	for _, c := range []struct {
		ahead, me string
		want      []driver.Token
	}{
		{"", "lock", nil},
		{"lock lock", "lock", []driver.Token{2}},
		{"R R", "W", []driver.Token{2}},
		{"R R", "R", nil},
		{"R W R W R", "R", []driver.Token{4}},
		{"lock R", "R", []driver.Token{1}},
		{"S1of3 R", "R", []driver.Token{1}},
		{"another", "R", []driver.Token{1}},
		{"S1of3 S1of3", "S1of3", nil},
		{"S1of3 S1of3 S1of3", "S1of3", []driver.Token{1, 2, 3}},
		{"S1of3 S3of3 S1of3", "S1of3", []driver.Token{2, 3}},
		{"S1of3 S1of3 S1of3", "S3of3", []driver.Token{3}},
		{"S1of2 S1of3", "S1of3", []driver.Token{1, 2}}, // one of them knows of only two
		{"S1of1 S1of9", "S1of9", []driver.Token{1, 2}},
		{"R", "S1of3", []driver.Token{1}},
		{"Q1of2", "Q1of2", nil},
		{"Q1of2 Q1of2", "Q1of2", []driver.Token{1, 2}},       // they fit, so I am the first in waiting
		{"Q1of2 Q1of2 Q1of2", "Q1of2", []driver.Token{3}},    // that one is the first in waiting
		{"Q1of2 G1of2", "Q1of2", []driver.Token{1, 2}},       // it says that it is granted
		{"Q1of2 Q1of2 G1of2", "Q1of2", []driver.Token{2, 3}}, // so does this one: somebody that I still see has gone
		{"Q1of2 Q1of2 Q1of2", "S1of2", []driver.Token{3}},    // the limit rolls from many to few
		{"S1of2 S1of2 S1of2", "Q1of2", []driver.Token{2, 3}}, // and back: with few, nobody says that it is granted
		{"lock", "Q1of2", []driver.Token{1}},
		{"S0of3", "S1of3", []driver.Token{1}}, // no kind of ours: it takes all
	} {
		me := line(c.ahead + " " + c.me)
		ahead, last := me[:len(me)-1], me[len(me)-1]
		var got []driver.Token
		for _, n := range For(c.me)(last, ahead) {
			got = append(got, n.Token)
		}
		if len(got) != len(c.want) {
			t.Errorf("%s behind [%s] waits for %v, want %v", c.me, c.ahead, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s behind [%s] waits for %v, want %v", c.me, c.ahead, got, c.want)
			}
		}
	}
}

// A long line is not read through for each node that joins.
func TestAsMuchOfALineAsDepthSaysIsEnough(t *testing.T) {
	for range 20_000 {
		var all string
		mixed := rand.N(4) == 0
		permits := rand.N[int64](12) + 1
		weight := func() int64 { return max(1, rand.N(permits)+1-rand.N[int64](12)) }
		some := func() string {
			if mixed && rand.N(5) == 0 {
				return Permits(1, rand.N[int64](12)+1)
			}
			if rand.N(50) == 0 {
				return Lock
			}
			kind := Permits(weight(), permits)
			if rand.N(3) == 0 && Granted(kind) != "" {
				return Granted(kind)
			}
			return kind
		}
		for range rand.N(40) {
			all += some() + " "
		}
		me, ahead := driver.Node{Kind: Permits(weight(), permits)}, line(all)
		near := ahead[max(0, len(ahead)-Sight(Permits(1, permits)).Nearest):]
		want, got := Weighted(me, ahead), Weighted(me, near)
		if len(want) == 0 != (len(got) == 0) {
			t.Fatalf("%s behind [%s] waits for %v, and if it sees no more than %v for %v", me.Kind, all, want, near, got)
		}
		if !mixed && (len(want) != len(got) || len(got) > 0 && got[0].Token != want[0].Token) {
			t.Fatalf("%s behind [%s] waits for %v, and if it sees no more than %v for %v", me.Kind, all, want, near, got)
		}
	}
	if most, one := Sight(Permits(1, math.MaxInt64)), Sight(Permits(1, 1)); most.Nearest != driver.All || one.Nearest != 2 {
		t.Error(most, one)
	}
}

// What others wrote may have any kind: it takes all, and whoever stands behind it waits.
func TestNoKindEndsTheProcess(t *testing.T) {
	kinds := []string{"", "S", "Q", "G", "Qof", "Q1of", "Q9223372036854775808of1", "\x00", "\xff\xfe", strings.Repeat("Q", 1<<16)}
	for _, kind := range kinds {
		odd := driver.Node{Kind: kind, Token: 1}
		for _, mine := range []string{Lock, Reader, Writer, "S1of3", "Q1of9", "G1of9"} {
			me := driver.Node{Kind: mine, Token: 2}
			if wait := For(mine)(me, []driver.Node{odd}); len(wait) != 1 {
				t.Errorf("%s behind %.20q waits for %v", mine, kind, wait)
			}
			For(kind)(odd, []driver.Node{me})
			Turns([]driver.Node{odd, me})
		}
		if Granted(kind) != "" {
			t.Errorf("%.20q announces that it is granted", kind)
		}
	}
}

func TestKindsOfPermits(t *testing.T) {
	for _, c := range []struct{ weight, permits int64 }{{1, 1}, {3, 8}, {math.MaxInt64 - 1, math.MaxInt64}} {
		kind := Permits(c.weight, c.permits)
		w, p := parsePermits(kind)
		if w != c.weight || p != c.permits || !driver.ValidKind(kind) {
			t.Errorf("%s: %d of %d", kind, w, p)
		}
	}
	for _, kind := range []string{"", "S", "Sof", "S1of", "Sof3", "S-1of3", "S1of0", "lock", "S1of3x"} {
		if IsPermits(kind) {
			t.Errorf("%q passes for permits", kind)
		}
	}
}

func TestWhatIsHeldCoversWhatIsAsked(t *testing.T) {
	kinds := []string{Lock, Writer, Lead, Reader, "S1of3", "S2of3"}
	for _, held := range kinds {
		for _, asked := range kinds {
			want := held == asked || strings.Contains("lock W lead", held)
			if Covers(held, asked) != want {
				t.Errorf("%s within %s: covered is %v", asked, held, !want)
			}
		}
	}
}

func TestManyPermitsAreMoreThanFew(t *testing.T) {
	for permits, want := range map[int64]string{1: "S1of1", Few: "S1of8", Few + 1: "Q1of9"} {
		if kind := Permits(1, permits); kind != want {
			t.Errorf("one of %d is %s, want %s", permits, kind, want)
		}
	}
}
