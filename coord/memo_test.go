package coord_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/verify/bubble"
)

func TestANestedHoldThatHasEndedWritesNoMemo(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		outer := enter(t, c)
		inner := within(t, c, outer.Context(), "lock")
		require.NoError(t, inner.SetMemo(t.Context(), []byte("within")))
		require.NoError(t, inner.Release())
		assert.ErrorIs(t, inner.SetMemo(t.Context(), []byte("afterwards")), coord.ErrReleased)
		memo, err := outer.Memo(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "within", string(memo))
		require.NoError(t, outer.SetMemo(t.Context(), nil))
		require.NoError(t, outer.Release())
		assert.ErrorIs(t, outer.SetMemo(t.Context(), []byte("afterwards")), coord.ErrReleased)
	})
}
