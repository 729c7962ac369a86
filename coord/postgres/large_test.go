package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// Whoever may write one row may put more into it than anybody reads. That harms the line, and no other.
func TestARowThatIsLargerThanAnyLineHarmsNoOther(t *testing.T) {
	s := withStrangers(t)
	a, b := s.used("INSERT")
	storecheck.Locked(t, a, "orders")
	s.mallory(`INSERT INTO ` + usual + ` (key, version, value) VALUES ('line/spoilt', 1, decode(repeat('41', 70000000), 'hex'))`)
	storecheck.ListsTheOthers(t, b, "orders")
	_, err := mutex.New(a, "spoilt").Lock(within(t, 20*time.Second))
	if err == nil || !strings.Contains(err.Error(), `"spoilt"`) || !strings.Contains(err.Error(), "not a line") {
		t.Errorf("the line itself: %v", err)
	}
}

// Many rows that are large are too much for a page, and not for a list.
func TestManyRowsThatAreLargeAreListed(t *testing.T) {
	m := sharedServer(t)
	table := freshTable()
	s := opened(t, m.URL(), WithTable(table))
	put(t, s, register.Item{Key: "line/orders"}, "ours")
	const many, size = 20, 30_000_000
	query(t, m.URL(), fmt.Sprintf(`INSERT INTO %s (key, version, value) SELECT convert_to('line/large' || n, 'UTF8'), 1, decode(repeat('41', %d), 'hex')
		FROM generate_series(1, %d) AS n`, table, size, many))
	found := map[string]int{}
	storecheck.Bounded(t, 400, func() {
		err := s.List(within(t, 2*time.Minute), "line/", func(it register.Item) bool { found[it.Key] = len(it.Value); return true })
		if err != nil {
			t.Error(err)
		}
	})
	if len(found) != many+1 || found["line/large7"] != size || found["line/orders"] != 4 {
		t.Errorf("listed: %v", found)
	}
}
