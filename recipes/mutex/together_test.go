package mutex_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/bubble"
)

const window = 10 * time.Millisecond

func together(c *coord.Client) *mutex.Mutex {
	return mutex.New(c, "orders", mutex.Together(window))
}

func locked(t *testing.T, m *mutex.Mutex) *coord.Hold {
	t.Helper()
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Err())
	return h
}

// asks has somebody wait, and returns once he does.
func asks(t *testing.T, m *mutex.Mutex) <-chan coord.Result {
	c := m.LockChan(t.Context())
	synctest.Wait()
	return c
}

// sameNode reports whether two holds are turns of one node.
func sameNode(a, b *coord.Hold) bool { return a.Token()>>coord.TurnBits == b.Token()>>coord.TurnBits }

func line(t *testing.T, s *mem.Service) []coord.Node {
	t.Helper()
	nodes, err := s.Client().Line(t.Context(), "orders")
	require.NoError(t, err)
	return nodes
}

func TestThoseWhoAskTogetherTakeTurnsInTheirOrder(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		m := together(s.Client())
		first := locked(t, m)
		var others []<-chan coord.Result
		for range 20 {
			others = append(others, asks(t, m))
		}
		last := first
		for _, other := range others {
			bubble.Waits(t, other)
			require.NoError(t, last.Release())
			h := bubble.Enters(t, other)
			assert.True(t, sameNode(first, h))
			assert.Equal(t, last.Token()+1, h.Token())
			assert.Equal(t, h.Token(), h.Node().Token)
			assert.ErrorIs(t, last.Err(), coord.ErrReleased)
			last = h
		}
		assert.Len(t, line(t, s), 1)
		time.Sleep(window)
		require.NoError(t, last.Release())
		assert.Empty(t, line(t, s))
	})
}

func TestWhoeverAsksLaterStandsBehindWhoCameMeanwhile(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ours, theirs := together(s.Client()), together(s.Client())
		first := locked(t, ours)
		var order []string
		var all sync.WaitGroup
		enters := func(who string, m *mutex.Mutex) {
			all.Go(func() {
				assert.NoError(t, m.Do(t.Context(), func(context.Context, *coord.Hold) error {
					order = append(order, who)
					return nil
				}))
			})
			synctest.Wait()
		}
		enters("the stranger", theirs)
		time.Sleep(window - 1)
		enters("in time", ours)
		time.Sleep(time.Nanosecond)
		enters("late", ours)
		assert.Len(t, line(t, s), 3)
		require.NoError(t, first.Release())
		all.Wait()
		assert.Equal(t, []string{"in time", "the stranger", "late"}, order)
		time.Sleep(window)
	})
}

func TestTheNodeStaysUntilItsWindowHasPassed(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		m := together(s.Client())
		first := locked(t, m)
		require.NoError(t, first.Release())
		assert.Len(t, line(t, s), 1)
		stranger := asks(t, mutex.New(s.Client(), "orders"))
		time.Sleep(window / 2)
		second := locked(t, m)
		assert.True(t, sameNode(first, second))
		require.NoError(t, second.Release())
		time.Sleep(window/2 - 1)
		bubble.Waits(t, stranger)
		time.Sleep(time.Nanosecond)
		h := bubble.Enters(t, stranger)
		require.NoError(t, h.Release())
		assert.Empty(t, line(t, s))

		third := locked(t, m)
		assert.False(t, sameNode(first, third))
		time.Sleep(2 * window)
		require.NoError(t, third.Release())
		assert.Empty(t, line(t, s), "its window has passed while it was held")
	})
}

func TestANodeHasNoMoreTurnsThanTokens(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		m := together(s.Client())
		var last coord.Token
		nodes := map[coord.Token]int{}
		for range 600 {
			h := locked(t, m)
			assert.Greater(t, h.Token(), last)
			last = h.Token()
			nodes[last>>coord.TurnBits]++
			require.NoError(t, h.Release())
		}
		assert.Len(t, nodes, 3)
		time.Sleep(window)
	})
}

func TestMoreThanANodeHasRoomForStandInTheNext(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		m := together(s.Client())
		held := locked(t, m)
		var last atomic.Uint64
		var all sync.WaitGroup
		for range 600 {
			all.Go(func() {
				_ = m.Do(t.Context(), func(_ context.Context, h *coord.Hold) error {
					assert.Less(t, last.Swap(uint64(h.Token())), uint64(h.Token()))
					return nil
				})
			})
		}
		synctest.Wait()
		assert.Len(t, line(t, s), 3)
		require.NoError(t, held.Release())
		all.Wait()
		time.Sleep(window)
	})
}

func TestATryTakesATurnThatIsFree(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		m := together(c)
		alone, err := m.TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, alone.Release())
		assert.Empty(t, line(t, s), "a try takes a place of its own if there is none to share")

		h := locked(t, m)
		_, err = m.TryLock(t.Context())
		assert.ErrorIs(t, err, coord.ErrBusy)
		var failed *coord.Error
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, h.Node().ID, failed.Blocker.ID)
		_, err = mutex.New(c, "orders", mutex.Together(window), mutex.MaxWait(0)).Lock(t.Context())
		assert.ErrorIs(t, err, coord.ErrBusy)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, h.Release())
		again, err := m.TryLock(t.Context())
		require.NoError(t, err)
		assert.True(t, sameNode(h, again))
		require.NoError(t, again.Release())

		plain, err := mutex.New(c, "orders").TryLock(t.Context())
		require.NoError(t, err, "for who does not share, a node of this client that nobody uses goes")
		require.NoError(t, plain.Release())
	})
}

func TestAmongThoseWhoWaitEachMayGiveUp(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		busy := locked(t, mutex.New(s.Client(), "orders"))
		c := s.Client()
		m := together(c)
		ctx, cancel := context.WithCancelCause(t.Context())
		first, second, third := m.LockChan(ctx), asks(t, m), mutex.New(c, "orders", mutex.Together(window), mutex.MaxWait(time.Minute)).LockChan(t.Context())
		synctest.Wait()
		assert.Len(t, line(t, s), 2)
		enough := errors.New("enough")
		cancel(enough)
		r := <-first
		assert.ErrorIs(t, r.Err, context.Canceled)
		assert.ErrorIs(t, r.Err, enough)
		assert.ErrorIs(t, r.Err, coord.ErrBusy)
		var failed *coord.Error
		require.ErrorAs(t, r.Err, &failed)
		assert.Equal(t, busy.Node().ID, failed.Blocker.ID)
		r = <-third
		assert.ErrorIs(t, r.Err, context.DeadlineExceeded)
		assert.ErrorIs(t, r.Err, coord.ErrBusy)
		bubble.Waits(t, second)
		require.NoError(t, busy.Release())
		h := bubble.Enters(t, second)
		time.Sleep(window)
		require.NoError(t, h.Release())

		// The last one who gives up takes the node away.
		busy = locked(t, mutex.New(s.Client(), "orders"))
		ctx, stop := context.WithCancel(t.Context())
		last := m.LockChan(ctx)
		synctest.Wait()
		stop()
		assert.ErrorIs(t, (<-last).Err, context.Canceled)
		assert.Len(t, line(t, s), 1)
		require.NoError(t, busy.Release())
	})
}

// The rule says that the turn has come, and at the same moment the only one who waited for it gives up.
func TestATurnThatComesWhenAllHaveGivenUpIsGivenBack(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, cancel := context.WithCancel(t.Context())
		rule := coord.Rule{Sight: coord.Sight{Nearest: 1}, WaitFor: func(coord.Node, []coord.Node) []coord.Node {
			cancel()
			time.Sleep(time.Millisecond)
			return nil
		}}
		_, err := s.Client().Acquire(ctx, "orders", "lock", nil, rule, coord.Together(window))
		assert.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
		assert.Empty(t, line(t, s))
	})
}

func TestARuleThatPanicsEndsTheWaitOfAll(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		rule := coord.Rule{Sight: coord.Sight{Nearest: 1}, WaitFor: func(coord.Node, []coord.Node) []coord.Node { panic("no") }}
		_, err := s.Client().Acquire(t.Context(), "orders", "lock", nil, rule, coord.Together(window))
		assert.ErrorIs(t, err, coord.ErrInvalid)
		assert.ErrorContains(t, err, "the rule panicked: no")
		synctest.Wait()
		assert.Empty(t, line(t, s))
	})
}

func TestWhoWaitsForAServiceOutOfReachHearsThat(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		defer s.Partition(c)()
		m := mutex.New(c, "orders", mutex.Together(window), mutex.MaxWait(time.Second))
		_, err := m.Lock(t.Context())
		assert.ErrorIs(t, err, coord.ErrUnavailable)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, coord.ErrBusy)
	})
}

func TestAfterALossThoseWhoWaitStandAgainInTheirOrder(t *testing.T) {
	for what, lose := range map[string]func(*mem.Service, *coord.Client, coord.Node){
		"the session ends":    func(s *mem.Service, c *coord.Client, _ coord.Node) { s.Expire(c) },
		"the node is removed": func(s *mem.Service, _ *coord.Client, n coord.Node) { s.Remove(n) },
	} {
		t.Run(what, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *mem.Service) {
				c := s.Client()
				m := together(c)
				held := locked(t, m)
				first, second := asks(t, m), asks(t, m)
				lose(s, c, line(t, s)[0])
				<-held.Context().Done()
				assert.ErrorIs(t, held.Err(), coord.ErrLost)
				h := bubble.Enters(t, first)
				assert.Greater(t, h.Token(), held.Token())
				assert.False(t, sameNode(held, h))
				bubble.Waits(t, second)
				assert.ErrorIs(t, held.Release(), coord.ErrLost)
				require.NoError(t, h.Err(), "what the lost turn does is over")
				require.NoError(t, h.Release())
				h = bubble.Enters(t, second)
				require.NoError(t, h.Release())
				time.Sleep(window)
			})
		})
	}
}

func TestANodeThatIsRemovedWhileItWaitsEndsTheWaitOfAll(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		busy := locked(t, mutex.New(s.Client(), "orders"))
		m := together(s.Client())
		first, second := asks(t, m), asks(t, m)
		require.NoError(t, s.Client().Break(t.Context(), line(t, s)[1]))
		assert.ErrorIs(t, (<-first).Err, coord.ErrRemoved)
		assert.ErrorIs(t, (<-second).Err, coord.ErrRemoved)
		require.NoError(t, busy.Release())
	})
}

func TestAPinnedHoldIsTheLastOfItsNode(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		m := together(s.Client())
		h := locked(t, m)
		next := asks(t, m)
		h.Pin()
		bubble.Waits(t, next)
		require.NoError(t, h.Release())
		second := bubble.Enters(t, next)
		assert.False(t, sameNode(h, second))
		h.Pin() // it is over
		require.NoError(t, second.Release())
		third := locked(t, m)
		assert.True(t, sameNode(second, third))
		nested, err := mutex.New(s.Client(), "orders").TryLock(t.Context())
		assert.Nil(t, nested)
		assert.ErrorIs(t, err, coord.ErrBusy)
		require.NoError(t, third.SetMemo(t.Context(), []byte("x")))
		require.NoError(t, third.Release())
		assert.Empty(t, line(t, s), "a memo is written by a node of one's own")
		assert.ErrorIs(t, third.SetMemo(t.Context(), []byte("y")), coord.ErrReleased)
		require.NoError(t, s.Client().Forget(t.Context(), "orders"))
		time.Sleep(window)
	})
}

func TestATurnKnowsItsOwnContext(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		m := mutex.New(c, "orders", mutex.Together(window), mutex.Reentrant())
		h := locked(t, m)
		assert.Same(t, h, c.Held(h.Context(), "orders"))
		_, err := together(c).Lock(h.Context())
		assert.ErrorIs(t, err, coord.ErrHeld)
		inner, err := m.Lock(h.Context())
		require.NoError(t, err)
		assert.Equal(t, h.Token(), inner.Token())
		require.NoError(t, inner.Release())
		require.NoError(t, h.Err())
		assert.ErrorIs(t, h.Amend(t.Context(), "lock", nil), coord.ErrInvalid)

		next := asks(t, together(c))
		require.NoError(t, h.Release())
		second := bubble.Enters(t, next)
		assert.Nil(t, c.Held(h.Context(), "orders"), "the node is held by somebody else")
		assert.Empty(t, c.Holds(h.Context()))
		require.NoError(t, second.Release())
		time.Sleep(window)
	})
}

func TestTheEndOfTheClientIsTheEndOfItsTurns(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		m := together(c)
		held := locked(t, m)
		next := asks(t, m)
		ended := make(chan error)
		go func() { ended <- c.Shutdown(t.Context()) }()
		assert.ErrorIs(t, (<-next).Err, coord.ErrClosed)
		synctest.Wait()
		_, err := m.TryLock(t.Context())
		assert.ErrorIs(t, err, coord.ErrClosed)
		require.NoError(t, held.Err(), "who is inside goes on")
		require.NoError(t, held.Release())
		require.NoError(t, <-ended)
		assert.Empty(t, line(t, s), "the node does not stay for its window")
		_, err = m.Lock(t.Context())
		assert.ErrorIs(t, err, coord.ErrClosed)
	})
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		require.NoError(t, locked(t, together(c)).Release())
		require.NoError(t, c.Close())
		assert.Empty(t, line(t, s), "nobody was inside, so nothing is left to the TTL")
	})
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		m := together(c)
		held, next := locked(t, m), asks(t, m)
		require.NoError(t, c.Close())
		assert.ErrorIs(t, held.Err(), coord.ErrClosed)
		assert.ErrorIs(t, (<-next).Err, coord.ErrClosed)
		assert.Len(t, line(t, s), 1, "what was inside is left to the TTL")
		assert.Error(t, held.Release())
		time.Sleep(time.Minute)
	})
}

func TestObserversHearOfEachTurn(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var mu sync.Mutex
		var told []string
		note := func(what string, n coord.Node) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprint(what, " ", n.Token&(1<<coord.TurnBits-1)))
		}
		c := s.Client(coord.WithObserver(&coord.Observer{
			Granted:   func(_ time.Time, n coord.Node, _ time.Duration) { note("granted", n) },
			Released:  func(_ time.Time, n coord.Node, _ time.Duration) { note("released", n) },
			Lost:      func(_ time.Time, n coord.Node, _ error) { note("lost", n) },
			Waiting:   func(_ time.Time, n coord.Node, _ int) { note("waiting", n) },
			Rejoining: func(_ time.Time, n coord.Node) { note("rejoining", n) },
		}))
		busy := locked(t, mutex.New(s.Client(), "orders"))
		m := together(c)
		first, second, third := asks(t, m), asks(t, m), asks(t, m)
		require.NoError(t, busy.Release())
		require.NoError(t, bubble.Enters(t, first).Release())
		held := bubble.Enters(t, second)
		s.Expire(c)
		require.NoError(t, bubble.Enters(t, third).Release())
		assert.Error(t, held.Release())
		time.Sleep(window)
		synctest.Wait()
		if len(told) == 8 && told[4] > told[5] { // two who are told at the same moment
			told[4], told[5] = told[5], told[4]
		}
		assert.Equal(t, []string{"waiting 0", "granted 1", "released 1", "granted 2", "lost 2", "rejoining 0", "granted 1", "released 1"}, told)
	})
}

func TestObserversHearWhyTheLastOneGaveUp(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		busy := locked(t, mutex.New(s.Client(), "orders"))
		var told []error
		c := s.Client(coord.WithObserver(&coord.Observer{GaveUp: func(_ time.Time, _ coord.Node, _ time.Duration, err error) { told = append(told, err) }}))
		_, err := mutex.New(c, "orders", mutex.Together(window), mutex.MaxWait(time.Second)).Lock(t.Context())
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		require.Len(t, told, 1)
		assert.ErrorIs(t, told[0], context.DeadlineExceeded)
		assert.ErrorIs(t, told[0], coord.ErrBusy)
		require.NoError(t, busy.Release())
	})
}

func TestTheLineSaysHowManyShareANode(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		m := together(c)
		h := locked(t, m)
		first, second := asks(t, m), asks(t, m)
		nodes, err := c.Line(t.Context(), "orders")
		require.NoError(t, err)
		require.Len(t, nodes, 1)
		assert.Equal(t, 3, nodes[0].Inside)
		assert.Zero(t, line(t, s)[0].Inside, "it is known to its process only")
		require.NoError(t, h.Release())
		require.NoError(t, bubble.Enters(t, first).Release())
		require.NoError(t, bubble.Enters(t, second).Release())
		time.Sleep(window)
	})
}

// house is what all contenders enter: nobody may be inside beside a hold that is valid, and tokens only grow. Where an operator
// removes a node, or the service ends a session out of the blue, the next in line may be in before the owner hears of it.
type house struct {
	mu      sync.Mutex
	inside  map[*coord.Hold]bool
	removed map[coord.Token]bool // nodes
	last    coord.Token
	entered int
}

func (h *house) enter(t *testing.T, hold *coord.Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if hold.Err() != nil || h.removed[hold.Token()>>coord.TurnBits] {
		return
	}
	for other := range h.inside {
		if other.Err() == nil && !h.removed[other.Token()>>coord.TurnBits] {
			t.Errorf("%d is inside beside %d", hold.Token(), other.Token())
		}
	}
	if hold.Token() <= h.last {
		t.Errorf("token %d after %d", hold.Token(), h.last)
	}
	h.inside[hold], h.last = true, hold.Token()
	h.entered++
}

func (h *house) leave(hold *coord.Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.inside, hold)
}

// Goroutines of several processes, of which some share, with waits that are given up, tries, pins, partitions, sessions that end
// and nodes that are removed.
func TestManyTogetherWhateverHappens(t *testing.T) {
	for seed := range uint64(12) {
		bubble.Run(t, func(t *testing.T, s *mem.Service) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			inside := house{inside: map[*coord.Hold]bool{}, removed: map[coord.Token]bool{}}
			dice := rand.New(rand.NewPCG(seed, 7))
			clients := []*coord.Client{s.Client(), s.Client(), s.Client()}
			var all sync.WaitGroup
			for range 24 {
				c, rand := clients[dice.IntN(len(clients))], rand.New(rand.NewPCG(dice.Uint64(), 0))
				opts := []mutex.Option{mutex.Together(time.Duration(rand.IntN(30)-3) * time.Millisecond)}
				all.Go(func() {
					for range 40 {
						oneTurn(ctx, t, &inside, mutex.New(c, "orders", opts...), rand)
						time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
					}
				})
			}
			over := make(chan struct{})
			go func() {
				defer close(over)
				all.Wait()
			}()
			for trouble := true; trouble; {
				select {
				case <-over:
					trouble = false
				case <-time.After(time.Duration(5+dice.IntN(60)) * time.Millisecond):
					inside.harm(t, s, clients[dice.IntN(len(clients))], dice)
				}
			}
			require.NoError(t, ctx.Err(), "somebody waits for ever")
			time.Sleep(time.Minute)
			assert.Greater(t, inside.entered, 300)
		})
	}
}

func oneTurn(ctx context.Context, t *testing.T, inside *house, m *mutex.Mutex, rand *rand.Rand) {
	take, try := m.Lock, rand.IntN(5) == 0
	if try {
		take = m.TryLock
	}
	soon := ctx
	if rand.IntN(4) == 0 {
		var cancel context.CancelFunc
		soon, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(20))*time.Millisecond)
		defer cancel()
	}
	h, err := take(soon)
	if err != nil {
		if !try && soon.Err() == nil && !errors.Is(err, coord.ErrRemoved) {
			t.Errorf("no reason to give up: %v", err)
		}
		return
	}
	if rand.IntN(20) == 0 {
		h.Pin()
	}
	inside.enter(t, h)
	time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond)
	inside.leave(h)
	_ = h.Release()
}

func (h *house) harm(t *testing.T, s *mem.Service, c *coord.Client, rand *rand.Rand) {
	synctest.Wait()
	nodes := line(t, s)
	switch rand.IntN(4) {
	case 0:
		h.remove(nodes...)
		s.Expire(c)
	case 1:
		heal := s.Partition(c)
		time.Sleep(time.Duration(rand.IntN(15)) * time.Second)
		heal()
	default:
		if len(nodes) > 0 {
			n := nodes[rand.IntN(len(nodes))]
			h.remove(n)
			s.Remove(n)
		}
	}
}

func (h *house) remove(nodes ...coord.Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range nodes {
		h.removed[n.Token>>coord.TurnBits] = true
	}
}
