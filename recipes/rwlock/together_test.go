package rwlock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/verify/bubble"
)

const window = 10 * time.Millisecond

func standing(t *testing.T, s *mem.Service) int {
	t.Helper()
	nodes, err := s.Client().Line(t.Context(), "list")
	require.NoError(t, err)
	return len(nodes)
}

func TestReadersOfAProcessAreInsideTogetherOnOneNode(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		l := rwlock.New(s.Client(), "list", rwlock.Together(window))
		var readers []*coord.Hold
		tokens := map[coord.Token]bool{}
		for range 100 {
			h, err := l.RLock(t.Context())
			require.NoError(t, err)
			readers = append(readers, h)
			tokens[h.Token()] = true
		}
		try, err := l.TryRLock(t.Context())
		require.NoError(t, err)
		readers = append(readers, try)
		assert.Len(t, tokens, 100, "each turn has a token of its own")
		assert.Equal(t, 1, standing(t, s))

		writer := rwlock.New(s.Client(), "list").LockChan(t.Context())
		time.Sleep(window)
		late := l.RLockChan(t.Context())
		bubble.Waits(t, late)
		for _, h := range readers {
			bubble.Waits(t, writer)
			require.NoError(t, h.Release())
		}
		w := bubble.Enters(t, writer)
		bubble.Waits(t, late)
		require.NoError(t, w.Release())
		require.NoError(t, bubble.Enters(t, late).Release())
		time.Sleep(window)
	})
}

func TestThoseWhoReadTogetherWaitForAWriterTogether(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w, err := rwlock.New(s.Client(), "list").Lock(t.Context())
		require.NoError(t, err)
		l := rwlock.New(s.Client(), "list", rwlock.Together(window))
		var all sync.WaitGroup
		var inside sync.WaitGroup
		inside.Add(50)
		for range 50 {
			all.Go(func() {
				assert.NoError(t, l.RDo(t.Context(), func(context.Context, *coord.Hold) error {
					inside.Done()
					inside.Wait() // for the last one
					return nil
				}))
			})
		}
		synctest.Wait()
		assert.Equal(t, 2, standing(t, s))
		require.NoError(t, w.Release())
		all.Wait()
		time.Sleep(window)
	})
}

func TestAWriterOfTheSameProcessNeedNotWaitForANodeThatNobodyUses(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		l := rwlock.New(s.Client(), "list", rwlock.Together(window))
		r, err := l.RLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, r.Release())
		assert.Equal(t, 1, standing(t, s), "it stays for who reads next")
		w, err := l.TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.Downgrade(t.Context(), w), "a writer stands alone")
		require.NoError(t, w.Release())

		r, err = l.RLock(t.Context())
		require.NoError(t, err)
		waits := l.LockChan(t.Context())
		bubble.Waits(t, waits)
		require.NoError(t, r.Release())
		require.NoError(t, bubble.Enters(t, waits).Release(), "it was there before nobody used the node")
	})
}

// A reader that is pinned goes on beside the others, and nobody joins them.
func TestAPinnedReaderLetsNobodyElseIn(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		l := rwlock.New(s.Client(), "list", rwlock.Together(window))
		first, err := l.RLock(t.Context())
		require.NoError(t, err)
		second, err := l.RLock(t.Context())
		require.NoError(t, err)
		first.Pin()
		third, err := l.RLock(t.Context())
		require.NoError(t, err)
		assert.Equal(t, first.Token()>>coord.TurnBits, second.Token()>>coord.TurnBits)
		assert.NotEqual(t, first.Token()>>coord.TurnBits, third.Token()>>coord.TurnBits)
		require.NoError(t, first.Release())
		require.NoError(t, second.Err())
		require.NoError(t, second.Release())
		require.NoError(t, third.Release())
		time.Sleep(window)
	})
}

func TestOnceShutdownHasBegunATryIsRefused(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		l := rwlock.New(c, "list", rwlock.Together(window))
		held, err := l.RLock(t.Context())
		require.NoError(t, err)
		ended := make(chan error)
		go func() { ended <- c.Shutdown(t.Context()) }()
		synctest.Wait()
		h, err := l.TryRLock(t.Context())
		assert.ErrorIs(t, err, coord.ErrClosed)
		if h != nil {
			h.Release()
		}
		require.NoError(t, held.Release())
		require.NoError(t, <-ended)
	})
}
