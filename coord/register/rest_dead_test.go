package register_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/recipes/semaphore"
)

// asOnKubernetes has some clients of a store that has no clock and loses no note unsaid.
func asOnKubernetes(t *testing.T, store register.Store, ttl time.Duration, n int) (links []*stretch, clients []*coord.Client) {
	for range n {
		link := stretchTo(store)
		c := coord.NewClient(register.New(surely{clockless{link}}, register.WithTTL(ttl)))
		t.Cleanup(func() { c.Close() })
		links, clients = append(links, link), append(clients, c)
	}
	return links, clients
}

// waitsAtMost plays a scenario that begins at different moments between two renewals. In each, somebody waits for so many TTLs at most.
func waitsAtMost(t *testing.T, ttls float64, play func(t *testing.T, phase time.Duration) time.Duration) {
	t.Helper()
	var worst time.Duration
	for phase := range 20 {
		synctest.Test(t, func(t *testing.T) { worst = max(worst, play(t, time.Duration(phase)*restTTL*7/20)) })
	}
	t.Logf("the longest wait: %.2f TTLs", worst.Seconds()/restTTL.Seconds())
	assert.LessOrEqual(t, worst.Seconds()/restTTL.Seconds(), ttls)
}

// entered waits for a turn, and says for how long.
func entered(t *testing.T, wait <-chan coord.Result) time.Duration {
	t.Helper()
	began := time.Now()
	within(t, 50*restTTL, wait)
	return time.Since(began)
}

// die cuts processes off, until the play has ended.
func die(links ...*stretch) (bury func()) {
	for _, l := range links {
		l.cut()
	}
	return func() {
		for _, l := range links {
			l.heal()
		}
	}
}

// docs/guarantees.md says so.
func TestTheDeadAtRestAreWaitedForAsLongAsIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		dies []int
		most float64
	}{
		"the next":                {[]int{1}, 2.5},
		"the holder and the next": {[]int{0, 1}, 4.5},
		"the next two":            {[]int{1, 2}, 4.5},
		"the next eight":          {[]int{1, 2, 3, 4, 5, 6, 7, 8}, 9},
		"the holder and eight":    {[]int{0, 1, 2, 3, 4, 5, 6, 7, 8}, 11},
	} {
		t.Run(name, func(t *testing.T) {
			waitsAtMost(t, c.most, func(t *testing.T, phase time.Duration) time.Duration {
				last := c.dies[len(c.dies)-1]
				links, _, first, waits := queue(t, last+2)
				time.Sleep(phase)
				var dead []*stretch
				for _, i := range c.dies {
					dead = append(dead, links[i])
				}
				defer die(dead...)()
				if c.dies[0] > 0 {
					require.NoError(t, first.Release())
				}
				return entered(t, waits[last])
			})
		})
	}
}

// A reader holds for long. A writer waits behind it, and dies. Readers behind the writer wait for nobody but the dead.
func TestReadersBehindAWriterThatDiedAtRest(t *testing.T) {
	waitsAtMost(t, 2.5, func(t *testing.T, phase time.Duration) time.Duration {
		links, clients := asOnKubernetes(t, memory.NewStore(), restTTL, 3)
		_, err := rwlock.New(clients[0], "a").RLock(t.Context())
		require.NoError(t, err)
		rwlock.New(clients[1], "a").LockChan(t.Context())
		time.Sleep(time.Second)
		reader := rwlock.New(clients[2], "a").RLockChan(t.Context())
		time.Sleep(5*time.Minute + phase)
		defer die(links[1])()
		return entered(t, reader)
	})
}

// One has a permit for ever. Another rests, gets its two, and dies. Somebody waits for that one alone.
func TestWhoHeldAfterARestIsWatchedOver(t *testing.T) {
	waitsAtMost(t, 2.5, func(t *testing.T, phase time.Duration) time.Duration {
		links, clients := asOnKubernetes(t, memory.NewStore(), restTTL, 4)
		take := func(i int, weight int64) <-chan coord.Result {
			defer time.Sleep(time.Second)
			return semaphore.New(clients[i], "a", 3).AcquireChan(t.Context(), weight)
		}
		within(t, time.Second, take(0, 1))
		second := within(t, time.Second, take(1, 2))
		dies := take(2, 2)
		last := take(3, 2)
		time.Sleep(5*time.Minute + phase)
		require.NoError(t, second.Release())
		within(t, time.Second, dies)
		time.Sleep(3 * restTTL)
		defer die(links[2])()
		return entered(t, last)
	})
}

// The leader and its only candidate die. Who only looks on sees that in time.
func TestWhoLooksOnSeesThatWhoRestedIsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		links, clients := asOnKubernetes(t, store, restTTL, 3)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, c := range clients[:2] {
			go election.New(c, "a").Run(ctx, nil, func(ctx context.Context, _ *election.Term) error { <-ctx.Done(); return nil })
			time.Sleep(time.Second)
		}
		go func() {
			for range election.New(clients[2], "a").Observe(ctx) {
			}
		}()
		time.Sleep(5 * time.Minute)
		defer die(links[:2]...)()
		admin := register.New(store)
		defer admin.Close(ctx)
		began := time.Now()
		for standing := 2; standing > 0; time.Sleep(time.Second) {
			line, err := admin.Line(ctx, "a")
			require.NoError(t, err)
			standing = len(line)
			require.LessOrEqual(t, time.Since(began), 9*restTTL, "%d still stand", standing)
		}
	})
}

// One has all permits, and eight wait for one each, so each of them may be next.
func TestWhoMayAllBeNextAreNotCalledByEachOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		count := &tally{Store: store}
		_, clients := asOnKubernetes(t, count, restTTL, 9)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		within(t, time.Second, semaphore.New(clients[0], "a", 8).AcquireChan(ctx, 8))
		for _, c := range clients[1:] {
			semaphore.New(c, "a", 8).AcquireChan(ctx, 1)
			time.Sleep(time.Second)
		}
		time.Sleep(5 * time.Minute)
		before := count.swaps.Load()
		time.Sleep(10 * time.Minute)
		assert.LessOrEqual(t, (count.swaps.Load()-before)/10, int64(9*24), "swaps a minute; as many as if nobody rested")
		require.NoError(t, store.List(ctx, "suspect/", func(it register.Item) bool {
			t.Errorf("somebody who lives is under suspicion: %s", it.Key)
			return true
		}))
		cancel()
	})
}

// A waiter comes to a line whose holder lives: whoever is ahead of it would not be out of its way if it were dead.
func TestWhoIsNewCallsNobodyWhoIsNotNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		_, clients := asOnKubernetes(t, store, restTTL, 2)
		count := &tally{Store: store}
		_, others := asOnKubernetes(t, count, restTTL, 1)
		h := within(t, time.Second, mutex.New(clients[0], "a").LockChan(t.Context()))
		defer h.Release()
		mutex.New(clients[1], "a").LockChan(t.Context())
		time.Sleep(5 * time.Minute)
		mutex.New(others[0], "b").LockChan(t.Context())
		mutex.New(others[0], "a").LockChan(t.Context())
		time.Sleep(restTTL / 100)
		joined := count.swaps.Load()
		time.Sleep(restTTL / 8) // it renews itself later
		assert.Equal(t, joined, count.swaps.Load(), "it has called somebody")
	})
}

// earless is a way on which all requests pass. What is told is lost while it is deaf, and then it says so.
type earless struct {
	register.Store
	deaf atomic.Bool

	mu    sync.Mutex
	hears []func([]byte)
}

func (e *earless) Listen(ctx context.Context, topic string, hear func([]byte)) (stop func(), err error) {
	e.mu.Lock()
	e.hears = append(e.hears, hear)
	e.mu.Unlock()
	return e.Store.Listen(ctx, topic, func(note []byte) {
		if !e.deaf.Load() {
			hear(note)
		}
	})
}

func (e *earless) hearAgain() {
	e.deaf.Store(false)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, hear := range e.hears {
		hear(nil)
	}
}

// aReaderAWriterAndAReader has a reader hold, a writer wait behind it on its own way to the store, and come to rest. When a reader comes, it
// calls the writer: it would be beside the first one if that were dead.
func aReaderAWriterAndAReader(t *testing.T, ttl time.Duration, way func(register.Store) register.Store) (come func(), line func() []coord.Node) {
	store := memory.NewStore()
	_, clients := asOnKubernetes(t, store, ttl, 2)
	_, writer := asOnKubernetes(t, way(store), ttl, 1)
	within(t, time.Second, rwlock.New(clients[0], "a").RLockChan(t.Context()))
	rwlock.New(writer[0], "a").LockChan(t.Context())
	time.Sleep(5 * time.Minute)
	line = func() []coord.Node {
		t.Helper()
		now, err := clients[0].Line(t.Context(), "a")
		require.NoError(t, err)
		return now
	}
	return func() { rwlock.New(clients[1], "a").RLockChan(t.Context()) }, line
}

// A store may be deaf for a while, and it is when the call comes. Who lives, and is answered all the time, keeps its place.
func TestWhoDoesNotHearThatItIsCalledKeepsItsPlace(t *testing.T) {
	for _, ttl := range []time.Duration{register.MinTTL, 2 * time.Second, restTTL} {
		t.Run(fmt.Sprint(ttl), func(t *testing.T) {
			for phase := range 10 {
				synctest.Test(t, func(t *testing.T) {
					var way *earless
					come, line := aReaderAWriterAndAReader(t, ttl, func(s register.Store) register.Store {
						way = &earless{Store: s}
						return way
					})
					time.Sleep(time.Duration(phase) * ttl / 5)
					was := line()
					way.deaf.Store(true)
					come()
					time.Sleep(10 * time.Second)
					way.hearAgain()
					time.Sleep(3 * ttl)
					is := line()
					require.Len(t, is, 3)
					assert.Equal(t, was[1].ID, is[1].ID)
				})
			}
		})
	}
}

func TestWhoHearsThatItIsCalledRenewsItselfAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var way *tally
		come, _ := aReaderAWriterAndAReader(t, restTTL, func(s register.Store) register.Store {
			way = &tally{Store: s}
			return way
		})
		come()
		before := way.swaps.Load()
		time.Sleep(restTTL / 8)
		assert.Greater(t, way.swaps.Load(), before)
	})
}

// One waits for so many lines that it looks at each seldom. It is well, and says that they are busy.
func TestWhoWaitsForManyLinesIsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, clients := asOnKubernetes(t, memory.NewStore(), restTTL, 2)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 1200 {
			within(t, time.Second, mutex.New(clients[0], fmt.Sprint("b", i)).LockChan(ctx))
		}
		for i := range 1200 {
			mutex.New(clients[1], fmt.Sprint("b", i)).LockChan(ctx)
		}
		short, end := context.WithTimeout(ctx, 30*time.Second)
		defer end()
		busy := mutex.New(clients[1], "b0").LockChan(short)
		for range 120 {
			time.Sleep(time.Second)
			require.NoError(t, clients[1].Health().Err)
		}
		assert.ErrorIs(t, (<-busy).Err, coord.ErrBusy)
	})
}
