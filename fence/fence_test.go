package fence_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
)

func TestStampsAreComparedByEpochAndThenByToken(t *testing.T) {
	inOrder := []fence.Stamp{
		{}, {Token: 1}, {Token: math.MaxInt64}, {Epoch: 1}, {Epoch: 1, Token: 1}, {Epoch: 1, Token: 2}, {Epoch: math.MaxUint32, Token: 1},
	}
	for i, a := range inOrder {
		for j, b := range inOrder {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			assert.Equal(t, want, a.Compare(b), "%v and %v", a, b)
			err := a.After(b)
			switch {
			case a.Token == 0:
				assert.ErrorIs(t, err, coord.ErrInvalid)
			case i < j:
				assert.ErrorIs(t, err, coord.ErrStale)
			default:
				assert.NoError(t, err)
			}
		}
	}
	assert.ErrorIs(t, fence.Stamp{Epoch: 7, Token: -1}.After(fence.Stamp{}), coord.ErrInvalid)
}

func TestMemoryRefusesWhatIsStaleLineByLine(t *testing.T) {
	m, ctx := new(fence.Memory), t.Context()
	assert.NoError(t, m.Pass(ctx, "a", fence.Stamp{Token: 5}))
	assert.NoError(t, m.Pass(ctx, "a", fence.Stamp{Token: 5}), "the same holder again")
	assert.NoError(t, m.Pass(ctx, "b", fence.Stamp{Token: 1}), "another line")
	err := m.Pass(ctx, "a", fence.Stamp{Token: 4})
	assert.ErrorIs(t, err, coord.ErrStale)
	assert.EqualError(t, err, `turnwise: pass "a": token is stale: 4, and 5 has been seen`)
	assert.NoError(t, m.Pass(ctx, "a", fence.Stamp{Epoch: 1, Token: 1}))
	assert.EqualError(t, m.Pass(ctx, "a", fence.Stamp{Token: 6}),
		`turnwise: pass "a": token is stale: 6, and 1 of epoch 1 has been seen`)
	assert.EqualError(t, m.Pass(ctx, "c", fence.Stamp{}), `turnwise: pass "c": invalid argument: no hold has the token 0`)
	assert.ErrorIs(t, m.Pass(ctx, "", fence.Stamp{Token: 1}), coord.ErrInvalidName)
}

// A lock moves from one engine to another, where tokens start again.
func Example() {
	var ledger fence.Memory // or one of sqlfence or redisfence
	ctx := context.Background()
	before := fence.Stamp{Token: 901_120}
	fmt.Println("on the old engine:", ledger.Pass(ctx, "ledger", before))

	after := fence.Stamp{Epoch: 1, Token: 256} // Token: hold.Token()
	fmt.Println("on the new one:", ledger.Pass(ctx, "ledger", after))
	fmt.Println("who is late is refused:", errors.Is(ledger.Pass(ctx, "ledger", before), coord.ErrStale))
	// Output:
	// on the old engine: <nil>
	// on the new one: <nil>
	// who is late is refused: true
}
