package sqlfence_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence/sqlfence"
)

// The tests on a real database are in verify/integration/fences.
func TestATableMustHaveANameThatNeedsNoCare(t *testing.T) {
	for _, table := range []string{".", "a.b.c", "a.", ".a", `a"b`, "a`b", "a'b", " a", "a?", "a$1", "a\\b", "a\x00", strings.Repeat("x", 64)} {
		_, err := sqlfence.New(sqlfence.Postgres, table)
		assert.ErrorIs(t, err, coord.ErrInvalid, "%q", table)
	}
	_, err := sqlfence.New(0, "")
	assert.EqualError(t, err, "turnwise: invalid argument: sqlfence has no dialect 0: use Postgres, MySQL or SQLite")
	for dialect, quoted := range map[sqlfence.Dialect]string{sqlfence.Postgres: `"turnwise_fence"`, sqlfence.MySQL: "`turnwise_fence`", sqlfence.SQLite: `"turnwise_fence"`} {
		f, err := sqlfence.New(dialect, "")
		require.NoError(t, err)
		assert.Contains(t, f.Schema(), "CREATE TABLE IF NOT EXISTS "+quoted+" (\n")
	}
}
