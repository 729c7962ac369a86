package coord_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/verify/bubble"
)

func TestAHolderIsAskedToLetGo(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		h := enter(t, s.Client())
		silent := queue(t, s.Client())
		type wish struct {
			of  coord.Node
			err error
		}
		wanted := make(chan wish, 1)
		go func() {
			n, err := h.Wanted(t.Context())
			wanted <- wish{n, err}
		}()
		time.Sleep(time.Hour)
		require.Empty(t, wanted, "one who only waits does not ask")
		asked := make(chan error)
		go func() { asked <- s.Client().Ask(t.Context(), "line", "the disk is full") }()
		w := <-wanted
		require.NoError(t, w.err)
		require.Equal(t, "the disk is full", w.of.Asks)
		require.Empty(t, w.of.Data)
		time.Sleep(time.Hour)
		require.NoError(t, h.Err(), "it need not do it")
		require.NoError(t, h.Release())
		r := <-silent
		require.NoError(t, r.Err)
		select {
		case err := <-asked:
			assert.Fail(t, "another one has not let go", err)
		default:
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.of, w.err = r.Hold.Wanted(ctx)
		require.NoError(t, w.err, "it was asked as well")
		require.NoError(t, r.Hold.Release())
		require.NoError(t, <-asked)
		require.Empty(t, lineOf(t, s, "line"))
		_, err := r.Hold.Wanted(t.Context())
		require.ErrorIs(t, err, coord.ErrReleased)
	})
}

func TestWhatANodeSaysStaysBesideItsData(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client(coord.WithTurnNotes())
		h, err := c.Acquire(t.Context(), "line", "lock", []byte("value"), exclusive, coord.Rank(-7), coord.Asking("please"))
		require.NoError(t, err)
		says := func(rank int, asks, data string, turn bool) {
			t.Helper()
			n, err := s.Client().First(t.Context(), "line")
			require.NoError(t, err)
			for _, n := range []coord.Node{n, h.Node()} {
				assert.Equal(t, rank, n.Rank)
				assert.Equal(t, asks, n.Asks)
				assert.Equal(t, data, string(n.Data))
				assert.Equal(t, turn, !n.Turn.IsZero())
			}
		}
		says(-7, "please", "value", false)
		time.Sleep(2 * time.Second)
		says(-7, "", "value", true) // who holds asks no more
		require.NoError(t, h.Amend(t.Context(), "lock", []byte("turnwise rank 3\nmine")))
		says(-7, "", "turnwise rank 3\nmine", true)
		require.ErrorIs(t, h.Amend(t.Context(), "lock", make([]byte, coord.MaxData)), coord.ErrInvalid, "there is no room")
		require.NoError(t, h.Release())
		for name, opts := range map[string][]coord.AcquireOption{
			"two lines": {coord.Asking("a\nb")},
			"a bell":    {coord.Asking("\a")},
			"a novel":   {coord.Asking(strings.Repeat("a", 201))},
		} {
			_, err := c.Acquire(t.Context(), "line", "lock", nil, exclusive, opts...)
			require.ErrorIs(t, err, coord.ErrInvalid, name)
		}
		_, err = c.Acquire(t.Context(), "line", "lock", make([]byte, coord.MaxData), exclusive, coord.Rank(1))
		require.ErrorIs(t, err, coord.ErrInvalid)
	})
}

func TestWhoHoldsBesideWantsNothing(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		read := coord.RuleOf(rules.Reader)
		h, err := s.Client().Acquire(t.Context(), "line", rules.Reader, nil, read)
		require.NoError(t, err)
		beside, err := s.Client().Acquire(t.Context(), "line", rules.Reader, nil, read, coord.Asking("please"))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n, err := h.Wanted(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded, "%+v", n)
		require.NoError(t, beside.Release())
		require.NoError(t, h.Release())
	})
}

func TestWhoHoldsAsksNotItself(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		h, err := c.Acquire(t.Context(), "line", rules.Lock, nil, exclusive)
		require.NoError(t, err)
		ctx, cancel := h.With(t.Context())
		defer cancel()
		ctx, stop := context.WithTimeout(ctx, time.Hour)
		defer stop()
		require.ErrorIs(t, c.Ask(ctx, "line", "please"), coord.ErrHeld)
		require.NoError(t, h.Release())
	})
}

func TestDataIsNoRemark(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		for _, c := range []*coord.Client{s.Client(), s.Client(coord.WithTurnNotes())} {
			for _, data := range []string{"turnwise rank 9\nmine", "turnwise asks please\nmine", "turnwise turn 2026-01-01T00:00:00.000Z\n", "turnwise data\nmine", "turnwise rank 9\nturnwise asks a\n"} {
				h, err := c.Acquire(t.Context(), "line", rules.Lock, []byte(data), exclusive)
				require.NoError(t, err)
				for range 2 {
					n, err := s.Client().First(t.Context(), "line")
					require.NoError(t, err)
					require.Equal(t, data, string(n.Data))
					require.Zero(t, n.Rank)
					require.Empty(t, n.Asks)
					time.Sleep(2 * time.Second)
				}
				require.NoError(t, h.Amend(t.Context(), rules.Lock, []byte(data)))
				require.Equal(t, data, string(h.Node().Data))
				require.NoError(t, h.Release())
			}
		}
	})
}

// Whoever asks with nothing would wait, and nobody would hear of it.
func TestWhoAsksSaysWhy(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		h := enter(t, s.Client())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := s.Client().Ask(ctx, "line", "")
		require.ErrorIs(t, err, coord.ErrInvalid)
		require.Zero(t, time.Since(began))
		require.NoError(t, h.Release())
	})
}
