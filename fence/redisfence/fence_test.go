package redisfence_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
	"github.com/turnwise/turnwise/fence/redisfence"
)

// answering returns a fence on a server that always gives the same reply.
func answering(reply any) *redisfence.Fence {
	return redisfence.New(func(context.Context, string, []string, []string) (any, error) { return reply, nil })
}

// The tests on a real server are in verify/integration/fences.
func TestAnEvalThatDoesNotReturnTheResultIsTold(t *testing.T) {
	for _, reply := range []any{nil, "OK", int64(1), []any{}, []any{"1"}, []any{int64(2)}} {
		err := answering(reply).Pass(t.Context(), "a", fence.Stamp{Token: 1})
		assert.ErrorContains(t, err, "does Eval return its result as it is?")
	}
}

func TestARefusalStaysOneWhateverHasBeenSeen(t *testing.T) {
	f := answering([]any{int64(0), "0000000000.0000000000000000001"})
	assert.ErrorIs(t, f.Pass(t.Context(), "a", fence.Stamp{Token: 2}), coord.ErrStale)
}

func FuzzWhatTheServerSaysHasBeenSeen(f *testing.F) {
	f.Add("0000000001.0000000000000000001")
	f.Add("0000000000.9223372036854775808")
	f.Add("4294967296.-000000000000000001")
	f.Fuzz(func(t *testing.T, seen string) {
		if answering([]any{int64(0), seen}).Pass(t.Context(), "a", fence.Stamp{Token: 2}) == nil {
			t.Errorf("%q lets it through", seen)
		}
	})
}
