package fence_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/fence"
	"github.com/turnwise/turnwise/recipes/mutex"
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

func TestALocalFenceRefusesWhatIsStaleLineByLine(t *testing.T) {
	f, ctx := new(fence.Local), t.Context()
	assert.NoError(t, f.Pass(ctx, "a", fence.Stamp{Token: 5}))
	assert.NoError(t, f.Pass(ctx, "a", fence.Stamp{Token: 5}), "the same holder again")
	assert.NoError(t, f.Pass(ctx, "b", fence.Stamp{Token: 1}), "another line")
	err := f.Pass(ctx, "a", fence.Stamp{Token: 4})
	assert.ErrorIs(t, err, coord.ErrStale)
	assert.EqualError(t, err, `turnwise: pass "a": token is stale: 4, and 5 has been seen`)
	assert.NoError(t, f.Pass(ctx, "a", fence.Stamp{Epoch: 1, Token: 1}))
	assert.EqualError(t, f.Pass(ctx, "a", fence.Stamp{Token: 6}),
		`turnwise: pass "a": token is stale: 6, and 1 of epoch 1 has been seen`)
	assert.EqualError(t, f.Pass(ctx, "c", fence.Stamp{}), `turnwise: pass "c": invalid argument: no hold has the token 0`)
	assert.ErrorIs(t, f.Pass(ctx, "", fence.Stamp{Token: 1}), coord.ErrInvalidName)
}

// A holder that was paused for too long writes with a token that has been overtaken.
func ExampleLocal() {
	service := mem.New()
	defer service.Close()
	ctx := context.Background()
	var file fence.Local // beside what is written to
	write := func(hold *coord.Hold) error { return file.Pass(ctx, "file", fence.Stamp{Token: hold.Token()}) }

	paused := service.Client()
	old, _ := mutex.New(paused, "file").Lock(ctx)
	fmt.Println("the holder writes:", write(old))

	service.Expire(paused) // while it is paused
	next, _ := mutex.New(service.Client(), "file").Lock(ctx)
	fmt.Println("the next one writes:", write(next))
	fmt.Println("the old one is refused:", errors.Is(write(old), coord.ErrStale))
	// Output:
	// the holder writes: <nil>
	// the next one writes: <nil>
	// the old one is refused: true
}

// A lock moves from one engine to another, where tokens start again.
func Example() {
	var ledger fence.Local // or one of sqlfence or redisfence
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
