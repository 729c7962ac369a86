package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/semaphore"
	"github.com/turnwise/turnwise/verify/bubble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func acquire(t *testing.T, s *semaphore.Semaphore, n int64) *coord.Hold {
	t.Helper()
	h, err := s.Acquire(t.Context(), n)
	require.NoError(t, err)
	return h
}

func TestNeverMorePermitsOutThanThereAre(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var mu sync.Mutex
		var out, most int64
		add := func(n int64) {
			mu.Lock()
			defer mu.Unlock()
			out += n
			most = max(most, out)
			assert.LessOrEqual(t, out, int64(5))
		}
		var all sync.WaitGroup
		for i := range 30 {
			sem, n := semaphore.New(s.Client(), "pool", 5), int64(i%5+1)
			all.Go(func() {
				for range 3 {
					assert.NoError(t, sem.Do(t.Context(), n, func(context.Context, *coord.Hold) error {
						add(n)
						time.Sleep(time.Second)
						add(-n)
						return nil
					}))
				}
			})
		}
		all.Wait()
		assert.Equal(t, int64(5), most, "permits lay idle")
	})
}

func TestWhoAsksForManyIsNotPassedByThoseWhoAskForFew(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		sem := func() *semaphore.Semaphore { return semaphore.New(s.Client(), "pool", 3) }
		a, b := acquire(t, sem(), 1), acquire(t, sem(), 1)
		three := sem().AcquireChan(t.Context(), 3)
		bubble.Waits(t, three)
		one := sem().AcquireChan(t.Context(), 1)
		bubble.Waits(t, one) // though a permit is free
		_, err := sem().TryAcquire(t.Context(), 1)
		assert.ErrorIs(t, err, coord.ErrBusy)
		b.Release()
		bubble.Waits(t, three)
		a.Release()
		h := bubble.Enters(t, three)
		bubble.Waits(t, one)
		h.Release()
		bubble.Enters(t, one).Release()
	})
}

func TestSmallestNumberOfPermitsCountsWhileADeploymentRolls(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		old := func() *semaphore.Semaphore { return semaphore.New(s.Client(), "pool", 2) }
		wide := func() *semaphore.Semaphore { return semaphore.New(s.Client(), "pool", 4) }
		a, b := acquire(t, old(), 1), acquire(t, wide(), 1)
		third := wide().AcquireChan(t.Context(), 1)
		bubble.Waits(t, third) // one of those ahead knows of only two permits
		all := wide().AcquireChan(t.Context(), 4)
		a.Release()
		c := bubble.Enters(t, third)
		bubble.Waits(t, all)
		b.Release()
		bubble.Waits(t, all)
		c.Release()
		bubble.Enters(t, all).Release()
	})
}

func TestThereMayBeAsManyPermitsAsANumberCanSay(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		for _, n := range []int64{math.MaxInt64, math.MaxInt64 - 1} {
			all := acquire(t, semaphore.New(s.Client(), "api", n), n)
			one := semaphore.New(s.Client(), "api", n).AcquireChan(t.Context(), 1)
			bubble.Waits(t, one)
			most := semaphore.New(s.Client(), "api", n).AcquireChan(t.Context(), n-1)
			bubble.Waits(t, most)
			require.NoError(t, all.Release())
			time.Sleep(time.Second)
			a, b := bubble.Enters(t, one), bubble.Enters(t, most)
			more := semaphore.New(s.Client(), "api", n).AcquireChan(t.Context(), n)
			bubble.Waits(t, more)
			a.Release()
			bubble.Waits(t, more)
			b.Release()
			bubble.Enters(t, more).Release()

			m := mutex.New(s.Client(), "api").LockChan(t.Context())
			held := bubble.Enters(t, m)
			one = semaphore.New(s.Client(), "api", n).AcquireChan(t.Context(), 1)
			bubble.Waits(t, one)
			held.Release()
			bubble.Enters(t, one).Release()
		}
	})
}

// Each may find the other in its way, and then neither gets its permits; but neither is left in line.
func TestTriesThatCollideDoNotWait(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var both sync.WaitGroup
		var waited atomic.Int32
		watching := coord.WithObserver(&coord.Observer{Waiting: func(time.Time, coord.Node, int) { waited.Add(1) }})
		looked := make(chan struct{})
		var joined atomic.Int32
		for range 2 {
			c := coord.NewClient(&heldUp{Driver: s.Client().Driver(), join: func() {
				if joined.Add(1) == 2 {
					close(looked)
				}
				<-looked // both have looked
			}}, watching)
			both.Go(func() {
				began := time.Now()
				h, err := semaphore.New(c, "api", 3).TryAcquire(t.Context(), 2)
				assert.Zero(t, time.Since(began))
				if err != nil {
					assert.ErrorIs(t, err, coord.ErrBusy)
					return
				}
				time.Sleep(100 * time.Millisecond)
				assert.NoError(t, h.Release())
			})
		}
		both.Wait()
		assert.Zero(t, waited.Load())
	})
}

// heldUp makes joins wait.
type heldUp struct {
	driver.Driver
	join func()
}

func (d *heldUp) Open(ctx context.Context) (driver.Session, error) {
	s, err := d.Driver.Open(ctx)
	return &heldUpSession{s, d.join}, err
}

type heldUpSession struct {
	driver.Session
	join func()
}

func (s *heldUpSession) Join(ctx context.Context, e driver.Entry) (driver.Place, []driver.Node, error) {
	s.join()
	return s.Session.Join(ctx, e)
}

// A service that is full for a moment must not cost those behind their turn.
func TestPermitsAreGivenOnThoughAnAnnouncementIsRefused(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		full := &fullOnce{Driver: s.Client().Driver()}
		sem := func(c *coord.Client) *semaphore.Semaphore { return semaphore.New(c, "api", 9) }
		nine := acquire(t, sem(s.Client()), 9)
		second := sem(coord.NewClient(full)).AcquireChan(t.Context(), 1)
		synctest.Wait()
		third := sem(s.Client()).AcquireChan(t.Context(), 1)
		synctest.Wait()
		require.NoError(t, nine.Release())
		time.Sleep(time.Second)
		bubble.Enters(t, third).Release()
		bubble.Enters(t, second).Release()
		assert.True(t, full.refused.Load())
	})
}

// fullOnce has the service refuse the first amendment.
type fullOnce struct {
	driver.Driver
	refused atomic.Bool
}

func (f *fullOnce) Open(ctx context.Context) (driver.Session, error) {
	s, err := f.Driver.Open(ctx)
	return &fullSession{s, f}, err
}

type fullSession struct {
	driver.Session
	full *fullOnce
}

func (s *fullSession) Join(ctx context.Context, e driver.Entry) (driver.Place, []driver.Node, error) {
	p, ahead, err := s.Session.Join(ctx, e)
	return &fullPlace{p, s.full}, ahead, err
}

type fullPlace struct {
	driver.Place
	full *fullOnce
}

func (p *fullPlace) Amend(ctx context.Context, kind string, data []byte) error {
	if p.full.refused.CompareAndSwap(false, true) {
		return errors.New("no space left")
	}
	return p.Place.Amend(ctx, kind, data)
}

func TestSeveralHoldsOfOneCaller(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		sem := semaphore.New(s.Client(), "pool", 2)
		a := acquire(t, sem, 1)
		b, err := sem.TryAcquire(a.Context(), 1)
		require.NoError(t, err)
		assert.Greater(t, b.Token(), a.Token())
		a.Release()
		assert.NoError(t, b.Err())
		b.Release()
	})
}

func TestWhatCannotBeIsRefusedBeforeJoining(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		for _, c := range []struct {
			permits, n int64
			why        string
		}{
			{0, 1, "a semaphore with 0 permits"}, {-1, 1, "a semaphore with -1 permits"},
			{3, 0, "0 permits asked for"}, {3, -1, "-1 permits asked for"}, {3, 4, "there are only 3"},
		} {
			sem := semaphore.New(s.Client(), "pool", c.permits)
			_, err := sem.Acquire(t.Context(), c.n)
			assert.ErrorIs(t, err, coord.ErrInvalid, "%+v", c)
			assert.ErrorContains(t, err, c.why)
			_, err = sem.TryAcquire(t.Context(), c.n)
			assert.ErrorIs(t, err, coord.ErrInvalid, "%+v", c)
			assert.ErrorIs(t, (<-sem.AcquireChan(t.Context(), c.n)).Err, coord.ErrInvalid, "%+v", c)
		}
		assert.ErrorIs(t, semaphore.New(s.Client(), "pool", 1).Do(t.Context(), 1, nil), coord.ErrInvalid)
	})
}

func TestPermitsComeBackWhenTheirHolderDies(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		dying := s.Client()
		h := acquire(t, semaphore.New(dying, "pool", 1), 1)
		next := semaphore.New(s.Client(), "pool", 1).AcquireChan(t.Context(), 1)
		bubble.Waits(t, next)
		s.Expire(dying)
		bubble.Enters(t, next).Release()
		assert.ErrorIs(t, h.Release(), coord.ErrLost)
	})
}

func TestMaxWaitBoundsTheWaitForPermits(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		a := acquire(t, semaphore.New(s.Client(), "pool", 2, nil, semaphore.MaxWait(0)), 1)
		b := acquire(t, semaphore.New(s.Client(), "pool", 2, semaphore.MaxWait(0)), 1)
		for _, limit := range []time.Duration{3 * time.Second, 0} {
			began := time.Now()
			_, err := semaphore.New(s.Client(), "pool", 2, semaphore.MaxWait(limit)).Acquire(t.Context(), 1)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorIs(t, err, coord.ErrBusy)
			assert.Equal(t, limit, time.Since(began))
		}
		a.Release()
		b.Release()
	})
}

func Example() {
	service := mem.New() // or zk.Connect, etcd.Connect
	defer service.Close()
	printers := semaphore.New(service.Client(), "printers", 2)
	ctx := context.Background()

	a, _ := printers.Acquire(ctx, 1)
	printers.Acquire(ctx, 1)
	_, err := printers.TryAcquire(ctx, 1)
	fmt.Println("a third:", errors.Is(err, coord.ErrBusy))
	a.Release()
	_, err = printers.TryAcquire(ctx, 1)
	fmt.Println("after a release:", err)
	// Output:
	// a third: true
	// after a release: <nil>
}

// A permit that is given back wakes only the waiters that it concerns, however many wait and however many permits there
// are. With few permits (n), all that watch the holder look again: half of n + 1 on average. With many, the first
// waiter does, and once it has entered, the one behind it.
func TestWakeUpsAGrantAreBounded(t *testing.T) {
	for _, c := range []struct {
		permits int64
		most    float64
	}{{1, 1}, {8, 4.5 * 1.2}, {100, 2}} {
		t.Run(fmt.Sprint(c.permits), func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *mem.Service) {
				var woken atomic.Int64
				client := s.Client(coord.WithObserver(&coord.Observer{Woken: func(time.Time, coord.Node) { woken.Add(1) }}))
				sem := semaphore.New(client, "pool", c.permits)
				var holds []*coord.Hold
				for range c.permits {
					holds = append(holds, acquire(t, sem, 1))
				}
				var waiting []<-chan coord.Result
				for range 300 {
					waiting = append(waiting, sem.AcquireChan(t.Context(), 1))
					synctest.Wait()
				}
				for _, next := range waiting { // the holders leave in any order
					leaves := rand.IntN(len(holds))
					holds[leaves].Release()
					synctest.Wait()
					holds[leaves] = bubble.Enters(t, next)
				}
				perGrant := float64(woken.Load()) / float64(len(waiting))
				t.Logf("%d permits: %.2f wake-ups a grant", c.permits, perGrant)
				assert.LessOrEqual(t, perGrant, c.most)
				for _, h := range holds {
					h.Release()
				}
			})
		})
	}
}
