package coord_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/verify/bubble"
)

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// caller is what calls of as say of their traces.
func caller(ctx context.Context) string {
	who, _ := ctx.Value(callerKey{}).(string)
	return who
}

func TestWhoWaitsIsToldTheTraceOfTheHolder(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var behind []string
		seen := coord.WithObserver(&coord.Observer{Behind: func(_ time.Time, me, first coord.Node) {
			behind = append(behind, me.Trace+" "+first.Trace+" "+string(first.Data))
		}})
		c := s.Client(coord.WithTraces(caller), coord.WithTurnNotes(), seen)
		holder, err := c.Acquire(as(t, traceparent), "line", "lock", []byte("data"), exclusive)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		assert.Equal(t, traceparent, holder.Node().Trace)
		assert.False(t, lineOf(t, s, "line")[0].Turn.IsZero(), "both stand there")
		second := coord.Chan(as(t, "second"), on(c))
		bubble.Waits(t, second)
		assert.Equal(t, []string{"second " + traceparent + " data"}, behind)
		require.NoError(t, holder.Amend(t.Context(), "lock", []byte("more")))
		n := lineOf(t, s, "line")[0]
		assert.Equal(t, traceparent+" more", n.Trace+" "+string(n.Data), "an amendment takes it along")

		behind = nil
		third := coord.Chan(as(t, "third"), on(s.Client(seen)))
		bubble.Waits(t, third)
		assert.Empty(t, behind, "whoever shows no traces does not ask for others'")
		require.NoError(t, holder.Release())
		require.NoError(t, bubble.Enters(t, second).Release())
		require.NoError(t, bubble.Enters(t, third).Release())
	})
}

func TestATraceIsSaidWhereItCanBe(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client(coord.WithTraces(caller))
		says := func(trace, data string, opts ...coord.AcquireOption) coord.Node {
			h, err := c.Acquire(as(t, trace), "line", "lock", []byte(data), exclusive, opts...)
			require.NoError(t, err)
			defer h.Release()
			n := lineOf(t, s, "line")[0]
			assert.Equal(t, data, string(n.Data))
			return n
		}
		assert.Equal(t, traceparent, says(traceparent, "x").Trace)
		assert.Empty(t, says("", "x").Trace)
		for _, bad := range []string{"two\nlines", "a bell \a", "\x80", strings.Repeat("x", 101)} {
			assert.Empty(t, says(bad, "x").Trace)
		}
		assert.Empty(t, says(traceparent, strings.Repeat("x", coord.MaxData)).Trace, "there is no room for it")
		assert.Equal(t, traceparent, says(traceparent, "turnwise trace forged\n").Trace, "data that looks like one is data")
		assert.Empty(t, says("", "turnwise trace two\x00words\n").Trace)
		n := says(traceparent, "x", coord.Rank(3), coord.Asking("a moment"))
		assert.Equal(t, []any{traceparent, 3, "a moment"}, []any{n.Trace, n.Rank, n.Asks})
	})
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client(coord.WithTraces(caller))
		h, err := c.Acquire(as(t, traceparent), "line", "lock", nil, exclusive, coord.Together(time.Second))
		require.NoError(t, err)
		assert.Empty(t, lineOf(t, s, "line")[0].Trace, "it stands for several calls")
		require.NoError(t, h.Release())
		time.Sleep(time.Minute)
	})
}
