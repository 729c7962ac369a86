package register_test

import (
	"context"
	"strings"
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
	"github.com/turnwise/turnwise/recipes/mutex"
)

// surely is a store that says each time that notes may have been lost.
type surely struct{ register.Store }

func (surely) LosesNoNoteUnsaid() {}

// stretch is one process's way to such a store. While it is cut, nothing comes through; afterwards it says that notes were lost.
type stretch struct {
	register.Store
	renewals atomic.Int64 // swaps of sessions

	mu    sync.Mutex
	mend  chan struct{} // closed; another one while it is cut
	hears []func([]byte)
}

const restTTL = 10 * time.Second

func stretchTo(store register.Store) *stretch {
	s := &stretch{Store: store, mend: make(chan struct{})}
	close(s.mend)
	return s
}

// client is a process behind the stretch.
func (s *stretch) client(t *testing.T) *coord.Client {
	c := coord.NewClient(register.New(surely{s}, register.WithTTL(restTTL)))
	t.Cleanup(func() { c.Close() })
	return c
}

func (s *stretch) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mend = make(chan struct{})
}

func (s *stretch) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.mend)
	for _, hear := range s.hears {
		hear(nil)
	}
}

func (s *stretch) isCut() (mended <-chan struct{}, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.mend:
		return s.mend, false
	default:
		return s.mend, true
	}
}

func (s *stretch) pass(ctx context.Context) error {
	mended, _ := s.isCut()
	select {
	case <-mended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *stretch) Read(ctx context.Context, key string) (register.Item, error) {
	if err := s.pass(ctx); err != nil {
		return register.Item{}, err
	}
	return s.Store.Read(ctx, key)
}

func (s *stretch) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	if err := s.pass(ctx); err != nil {
		return register.Item{}, err
	}
	if strings.HasPrefix(w.Key, "session/") {
		s.renewals.Add(1)
	}
	return s.Store.Swap(ctx, w)
}

func (s *stretch) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	if err := s.pass(ctx); err != nil {
		return err
	}
	return s.Store.List(ctx, prefix, yield)
}

func (s *stretch) Listen(ctx context.Context, topic string, hear func([]byte)) (stop func(), err error) {
	s.mu.Lock()
	s.hears = append(s.hears, hear)
	s.mu.Unlock()
	return s.Store.Listen(ctx, topic, func(note []byte) {
		if _, cut := s.isCut(); !cut {
			hear(note)
		}
	})
}

// queue has some processes wait for a lock, one after the other, and the first hold it, until all that wait have come to rest.
func queue(t *testing.T, n int) (links []*stretch, clients []*coord.Client, first *coord.Hold, waits []<-chan coord.Result) {
	store := memory.NewStore()
	for i := range n {
		link := stretchTo(store)
		c := link.client(t)
		links, clients = append(links, link), append(clients, c)
		if i == 0 {
			h, err := mutex.New(c, "a").Lock(t.Context())
			require.NoError(t, err)
			first = h
			continue
		}
		waits = append(waits, mutex.New(c, "a").LockChan(t.Context()))
		time.Sleep(time.Second)
	}
	time.Sleep(5 * time.Minute)
	return links, clients, first, waits
}

// within waits for a turn.
func within(t *testing.T, patience time.Duration, wait <-chan coord.Result) *coord.Hold {
	t.Helper()
	select {
	case r := <-wait:
		require.NoError(t, r.Err)
		return r.Hold
	case <-time.After(patience):
		t.Fatalf("its turn has not come in %v", patience)
		return nil
	}
}

func TestWhoWaitsIsSeldomRenewedAndSureWhenItsTurnComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		links, clients, first, waits := queue(t, 3)
		for i, link := range links[1:] {
			link.renewals.Store(0)
			assert.NoError(t, clients[i+1].Health().Err)
		}
		time.Sleep(10 * time.Minute)
		for _, link := range links[1:] {
			assert.LessOrEqual(t, link.renewals.Load(), int64(14))
			assert.Positive(t, link.renewals.Load())
		}
		for _, wait := range waits {
			let := time.Now()
			require.NoError(t, first.Release())
			first = within(t, time.Second, wait)
			assert.Less(t, time.Since(let), 100*time.Millisecond)
			assert.Greater(t, time.Until(first.Deadline()), restTTL/2)
			time.Sleep(10 * time.Minute)
			require.NoError(t, first.Err())
		}
	})
}

// A client waits for one line, and locks another. That hold lasts.
func TestWhoRestsMayLockSomethingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, clients, _, _ := queue(t, 2)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		h, err := mutex.New(clients[1], "b").Lock(ctx)
		require.NoError(t, err)
		assert.Less(t, time.Since(began), 100*time.Millisecond)
		time.Sleep(10 * time.Minute)
		require.NoError(t, h.Err())
		require.NoError(t, h.Release())
		time.Sleep(time.Minute)
		h, err = mutex.New(clients[1], "b").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Release())
	})
}

func TestWhoDiesAtRestStopsNobodyForLong(t *testing.T) {
	for name, dies := range map[string][]int{"the next": {1}, "the holder and the next": {0, 1}, "all but the last": {0, 1, 2, 3}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				links, _, first, waits := queue(t, 5)
				for _, i := range dies {
					links[i].cut()
				}
				if dies[0] > 0 {
					time.Sleep(time.Second)
					require.NoError(t, first.Release())
				}
				within(t, time.Duration(1+2*len(dies))*restTTL, waits[len(dies)-1+min(dies[0], 1)])
				for _, i := range dies {
					links[i].heal()
				}
			})
		})
	}
}

// The next one is called because somebody joins behind it, who cannot know that it is not the one to come.
func TestWhoIsCalledAndLivesKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		links, clients, first, waits := queue(t, 2)
		before := links[1].renewals.Load()
		last := mutex.New(clients[0], "a").LockChan(t.Context()) // of the holder's session, so that nothing else is watched
		time.Sleep(time.Second)
		other := stretchTo(links[0].Store)
		wait := mutex.New(other.client(t), "a").LockChan(t.Context())
		time.Sleep(2 * restTTL)
		assert.Greater(t, links[1].renewals.Load(), before)
		line, err := clients[0].Line(t.Context(), "a")
		require.NoError(t, err)
		require.Len(t, line, 4)
		require.NoError(t, first.Release())
		h := within(t, time.Second, waits[0])
		require.NoError(t, h.Release())
		h = within(t, time.Second, last)
		require.NoError(t, h.Release())
		within(t, time.Second, wait)
	})
}

// Who is cut off while it rests hears neither of its turn nor of a call. It comes back to find somebody else inside, and waits again.
func TestWhoHearsNoCallIsOverAndHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		links, clients, first, waits := queue(t, 3)
		links[1].cut()
		time.Sleep(time.Second)
		require.NoError(t, first.Release())
		h := within(t, 4*restTTL, waits[1])
		time.Sleep(2 * restTTL)
		assert.Error(t, clients[1].Health().Err)
		links[1].heal()
		time.Sleep(restTTL)
		require.NoError(t, h.Err())
		select {
		case r := <-waits[0]:
			t.Fatalf("it entered, or gave up: %v", r)
		default:
		}
		require.NoError(t, clients[1].Health().Err)
		require.NoError(t, h.Release())
		within(t, time.Second, waits[0])
	})
}

// Only tries come after the holder and who waited have died.
func TestATryGetsPastWhoDiedAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		links, _, _, _ := queue(t, 3)
		for _, link := range links {
			link.cut()
		}
		began := time.Now()
		for {
			c := coord.NewClient(register.New(surely{links[0].Store}, register.WithTTL(restTTL)))
			_, err := mutex.New(c, "a").TryLock(t.Context())
			c.Close()
			if err == nil {
				break
			}
			require.ErrorIs(t, err, coord.ErrBusy)
			require.Less(t, time.Since(began), 20*restTTL)
			time.Sleep(restTTL / 2)
		}
		for _, link := range links {
			link.heal()
		}
	})
}
