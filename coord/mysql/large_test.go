package mysql

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// Many rows that are large are too much for a page, and not for a list.
func TestManyRowsThatAreLargeAreListed(t *testing.T) {
	m := durable(t)
	s := opened(t, m.URL())
	put(t, s, register.Item{Key: "line/orders"}, "ours")
	const many, size = 20, 15_000_000
	for i := range many {
		query(t, m.URL(), fmt.Sprintf(`INSERT INTO %s (name, version, since, value) VALUES ('line/large%d', 1, NOW(), REPEAT('A', %d))`, usual, i, size))
	}
	found := map[string]int{}
	storecheck.Bounded(t, 300, func() {
		err := s.List(within(t, 2*time.Minute), "line/", func(it register.Item) bool { found[it.Key] = len(it.Value); return true })
		if err != nil {
			t.Error(err)
		}
	})
	if len(found) != many+1 || found["line/large7"] != size || found["line/orders"] != 4 {
		t.Errorf("listed: %v", found)
	}
}

// Whoever may write one row may put more into it than anybody reads. That harms the line, and no other.
func TestARowThatIsLargerThanAnyLineHarmsNoOther(t *testing.T) {
	s := withStrangers(t)
	s.admin(`SET GLOBAL max_allowed_packet = 100000000`)
	a, b := s.used("INSERT")
	storecheck.Locked(t, a, "orders")
	s.mallory(`INSERT INTO ` + usual + ` (name, version, since, value) VALUES ('line/spoilt', 1, NOW(), REPEAT('A', 40000000))`)
	storecheck.ListsTheOthers(t, b, "orders")
	_, err := mutex.New(a, "spoilt").Lock(within(t, 20*time.Second))
	if err == nil || !strings.Contains(err.Error(), `"spoilt"`) || !strings.Contains(err.Error(), "not a line") {
		t.Errorf("the line itself: %v", err)
	}
}
