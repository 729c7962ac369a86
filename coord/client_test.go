package coord_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/verify/bubble"
)

func TestOptionsThatAreNilChangeNothing(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client(nil, coord.WithOwnerLabel("billing"), coord.WithObserver(nil), nil)
		h, err := c.Acquire(t.Context(), "line", "lock", nil, exclusive, nil, coord.Anew(), nil)
		require.NoError(t, err)
		assert.Equal(t, "billing", h.Node().Owner.Label)
		require.NoError(t, h.Release())
	})
}

func TestAClientNeedsADriver(t *testing.T) {
	assert.PanicsWithValue(t, "turnwise: NewClient needs a driver, and got nil", func() { coord.NewClient(nil) })
}
