package coord_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/verify/bubble"
)

// A hold that lasts says since when, beside what its owner says, and nobody else sees a difference.
func TestAHoldThatLastsSaysSinceWhen(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c, other := s.Client(coord.WithTurnNotes()), s.Client()
		began := time.Now()
		h, err := c.Acquire(t.Context(), "a", "lock", []byte("value"), exclusive)
		require.NoError(t, err)
		node := func() coord.Node {
			line, err := other.Line(t.Context(), "a")
			require.NoError(t, err)
			require.Len(t, line, 1)
			first, err := other.First(t.Context(), "a")
			require.NoError(t, err)
			assert.Equal(t, line[0], first)
			return line[0]
		}
		time.Sleep(900 * time.Millisecond)
		assert.Zero(t, node().Turn, "a short hold costs no request more")
		time.Sleep(200 * time.Millisecond)
		assert.WithinDuration(t, began, node().Turn, time.Millisecond)
		assert.Equal(t, "value", string(node().Data))
		assert.Equal(t, "value", string(h.Node().Data))
		require.NoError(t, h.Amend(t.Context(), "lock", []byte("other")))
		assert.WithinDuration(t, began, node().Turn, time.Millisecond, "an amendment takes it along")
		assert.Equal(t, "other", string(node().Data))
		require.NoError(t, h.Amend(t.Context(), "lock", []byte(strings.Repeat("x", coord.MaxData))))
		assert.Zero(t, node().Turn, "there is no room for it")
		assert.Len(t, node().Data, coord.MaxData)
		require.NoError(t, h.Release())

		h, err = other.Acquire(t.Context(), "a", "lock", nil, exclusive)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		assert.Zero(t, node().Turn, "it was not asked for")
		assert.Nil(t, node().Data)
		require.NoError(t, h.Release())
	})
}

// What somebody else writes cannot have those who watch look without end.
func TestANoteInAnotherFormIsNone(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		for _, data := range []string{
			"turnwise turn 2026-01-02T15:04:05,123Z\nvalue", "turnwise turn 2026-01-02T15:04:05.123Z", "turnwise turn \nvalue",
			"turnwise turn 2026-13-02T15:04:05.123Z\nvalue", "turnwise turn 2026-01-02T15:04:05.123Z\nvalue",
		} {
			h, err := c.Acquire(t.Context(), "a", "lock", []byte(data), exclusive)
			require.NoError(t, err)
			n, err := c.First(t.Context(), "a")
			require.NoError(t, err)
			assert.Equal(t, n.Turn.IsZero(), string(n.Data) == data, data)
			seen := 0
			for _, err := range c.Watch(t.Context(), "a") {
				require.NoError(t, err)
				if seen++; seen == 1 {
					time.AfterFunc(10*time.Second, func() { h.Release() })
				} else {
					break
				}
			}
			assert.Equal(t, 2, seen)
			assert.Error(t, h.Context().Err(), "it was told of the release, and of nothing before")
		}
	})
}
