package postgres

import (
	"fmt"
	"testing"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
)

// Whoever may write one row may put more into it than anybody reads. That harms the line, and no other.
func TestARowThatIsLargerThanAnyLineHarmsNoOther(t *testing.T) {
	s := aloneWithStrangers(t)
	a, b := s.used("INSERT")
	storecheck.Locked(t, a, "orders")
	s.mallory(`INSERT INTO ` + usual + ` (key, version, value) VALUES ('line/spoilt', 1, decode(repeat('41', 70000000), 'hex'))`)
	storecheck.ListsTheOthers(t, b, "orders")
	storecheck.IsNoLine(t, a, "spoilt")
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
	storecheck.ListsLarge(t, s, many, size, 400)
}
