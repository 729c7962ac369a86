package mysql

import (
	"fmt"
	"testing"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
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
	storecheck.ListsLarge(t, s, many, size, 300)
}

// Whoever may write one row may put more into it than anybody reads. That harms the line, and no other.
func TestARowThatIsLargerThanAnyLineHarmsNoOther(t *testing.T) {
	s := aloneWithStrangers(t)
	s.admin(`SET GLOBAL max_allowed_packet = 100000000`)
	a, b := s.used("INSERT")
	storecheck.Locked(t, a, "orders")
	s.mallory(`INSERT INTO ` + usual + ` (name, version, since, value) VALUES ('line/spoilt', 1, NOW(), REPEAT('A', 40000000))`)
	storecheck.ListsTheOthers(t, b, "orders")
	storecheck.IsNoLine(t, a, "spoilt")
}
