package rules

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/internal/attempt"
)

func TestTurnsAreThoseThatTheRulesGive(t *testing.T) {
	most := fmt.Sprint(int64(math.MaxInt64))
	kinds := []string{Lock, Lead, Reader, Reader, Reader, Writer, "S1of3", "S2of3", "S1of4", "S4of2", "Q1of20", "G1of20", "G9of20",
		"Q1of" + most, "Q" + most + "of" + most, "unknown", "S0of1"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		some := kinds
		if random.IntN(2) == 0 {
			some = kinds[6:15]
		}
		var nodes []driver.Node
		for i := range random.IntN(7) {
			nodes = append(nodes, driver.Node{Kind: some[random.IntN(len(some))], Token: driver.Token(i + 1)})
		}
		var want []bool
		for i, n := range nodes {
			want = append(want, len(For(n.Kind)(n, nodes[:i])) == 0)
		}
		if got := Turns(nodes); !slices.Equal(got, want) {
			t.Fatalf("%v: %v, want %v", nodes, got, want)
		}
	}
}

// An operator looks at a line of twenty thousand, each of which has its turn: asking every rule takes more than ten
// seconds.
func TestTurnsOfALongLine(t *testing.T) {
	kind := Permits(1, 20_000)
	nodes := line(strings.Repeat(kind+" ", 20_000))
	var turns []bool
	took := attempt.Computing(func() { turns = Turns(nodes) })
	if slices.Contains(turns, false) {
		t.Error("not all have their turn")
	}
	if took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}
