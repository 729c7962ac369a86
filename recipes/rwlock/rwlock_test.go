package rwlock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/recipes/semaphore"
	"github.com/turnwise/turnwise/verify/bubble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func locked(t *testing.T) func(h *coord.Hold, err error) *coord.Hold {
	return func(h *coord.Hold, err error) *coord.Hold {
		t.Helper()
		require.NoError(t, err)
		require.NoError(t, h.Err())
		return h
	}
}

func TestReadersShareAndWritersExclude(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var readers, writers, most int
		var mu sync.Mutex
		enter := func(n *int) {
			mu.Lock()
			defer mu.Unlock()
			*n++
			assert.True(t, writers == 0 || writers == 1 && readers == 0, "%d readers beside %d writers", readers, writers)
			most = max(most, readers)
		}
		leave := func(n *int) {
			mu.Lock()
			defer mu.Unlock()
			*n--
		}
		var all sync.WaitGroup
		for i := range 40 {
			l := rwlock.New(s.Client(), "file")
			who, do := &readers, l.RDo
			if i%7 == 0 {
				who, do = &writers, l.Do
			}
			all.Go(func() {
				for range 3 {
					assert.NoError(t, do(t.Context(), func(context.Context, *coord.Hold) error {
						enter(who)
						time.Sleep(time.Second)
						leave(who)
						return nil
					}))
				}
			})
		}
		all.Wait()
		assert.Greater(t, most, 1, "readers never shared")
	})
}

func TestWaitingWriterIsNotPassedByReaders(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		l := func() *rwlock.RWLock { return rwlock.New(s.Client(), "file") }
		first := locked(t)(l().RLock(t.Context()))
		writer := l().LockChan(t.Context())
		bubble.Waits(t, writer)
		late := l().RLockChan(t.Context())
		bubble.Waits(t, late)
		_, err := l().TryRLock(t.Context())
		assert.ErrorIs(t, err, coord.ErrBusy)
		first.Release()
		w := bubble.Enters(t, writer)
		bubble.Waits(t, late)
		w.Release()
		bubble.Enters(t, late).Release()
	})
}

func TestDowngradeKeepsTokenAndPlaceAndLetsReadersIn(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		mine := rwlock.New(s.Client(), "file")
		h := locked(t)(mine.Lock(t.Context()))
		token := h.Token()
		reader := rwlock.New(s.Client(), "file").RLockChan(t.Context())
		bubble.Waits(t, reader)
		writer := rwlock.New(s.Client(), "file").LockChan(t.Context())
		bubble.Waits(t, writer)

		require.NoError(t, mine.Downgrade(t.Context(), h))
		assert.NoError(t, h.Err())
		assert.Equal(t, token, h.Token())
		r := bubble.Enters(t, reader)
		bubble.Waits(t, writer) // kazoo #649, CURATOR-204: a writer must not overtake a downgraded reader
		r.Release()
		bubble.Waits(t, writer)
		time.Sleep(time.Minute)
		assert.NoError(t, h.Err(), "the watch over its node moved with it")
		require.NoError(t, h.Release())
		bubble.Enters(t, writer).Release()
	})
}

func TestDowngradeRefusesWhatItCannotDo(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		l := rwlock.New(c, "file")
		assert.ErrorIs(t, l.Downgrade(t.Context(), nil), coord.ErrInvalid)

		other := locked(t)(rwlock.New(c, "other").Lock(t.Context()))
		assert.ErrorIs(t, l.Downgrade(t.Context(), other), coord.ErrInvalid)
		other.Release()
		assert.ErrorIs(t, l.Downgrade(t.Context(), other), coord.ErrReleased)

		read := locked(t)(l.RLock(t.Context()))
		assert.ErrorIs(t, l.Downgrade(t.Context(), read), coord.ErrInvalid)
		read.Release()

		lost := locked(t)(l.Lock(t.Context()))
		s.Expire(c)
		synctest.Wait()
		assert.ErrorIs(t, l.Downgrade(t.Context(), lost), coord.ErrLost)
		lost.Release()
	})
}

func TestLockInsideAHold(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		plain, reentrant := rwlock.New(c, "file"), rwlock.New(c, "file", rwlock.Reentrant())

		read := locked(t)(plain.RLock(t.Context()))
		for _, l := range []*rwlock.RWLock{plain, reentrant} {
			_, err := l.Lock(read.Context())
			assert.ErrorIs(t, err, coord.ErrUpgrade)
			_, err = l.TryLock(read.Context())
			assert.ErrorIs(t, err, coord.ErrUpgrade)
		}
		_, err := mutex.New(c, "file", mutex.Reentrant()).Lock(read.Context())
		assert.ErrorIs(t, err, coord.ErrUpgrade, "a mutex of the same name asks for as much as a writer")
		_, err = plain.RLock(read.Context())
		assert.ErrorIs(t, err, coord.ErrHeld)
		nested := locked(t)(reentrant.RLock(read.Context()))
		nested.Release()
		read.Release()

		write := locked(t)(plain.Lock(t.Context()))
		_, err = plain.Lock(write.Context())
		assert.ErrorIs(t, err, coord.ErrHeld)
		inner := locked(t)(reentrant.RLock(write.Context()))
		assert.Equal(t, write.Token(), inner.Token())
		assert.ErrorIs(t, reentrant.Downgrade(t.Context(), inner), coord.ErrInvalid, "the outer one still writes")
		inner.Release()
		write.Release()
	})
}

func TestOtherRecipesOnTheSameLineAreKeptOut(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		l := rwlock.New(s.Client(), "file")
		m := locked(t)(mutex.New(s.Client(), "file").Lock(t.Context()))
		_, err := rwlock.New(s.Client(), "file", rwlock.MaxWait(time.Second)).Lock(t.Context())
		assert.ErrorContains(t, err, `"file" (1 ahead, of kind lock): context deadline exceeded: line is busy`)
		var e *coord.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, m.Token(), e.Blocker.Token)
		reader := l.RLockChan(t.Context())
		bubble.Waits(t, reader)
		m.Release()
		r := bubble.Enters(t, reader)
		permit := semaphore.New(s.Client(), "file", 5).AcquireChan(t.Context(), 1)
		bubble.Waits(t, permit)
		r.Release()
		p := bubble.Enters(t, permit)
		reader = l.RLockChan(t.Context())
		bubble.Waits(t, reader)
		p.Release()
		bubble.Enters(t, reader).Release()
	})
}

func TestMaxWaitBoundsTheWaitForReadersAndWriters(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		a := locked(t)(rwlock.New(s.Client(), "file", nil, rwlock.MaxWait(0)).RLock(t.Context()))
		b := locked(t)(rwlock.New(s.Client(), "file", rwlock.MaxWait(0)).RLock(t.Context()))
		for _, limit := range []time.Duration{3 * time.Second, 0} {
			began := time.Now()
			_, err := rwlock.New(s.Client(), "file", rwlock.MaxWait(limit)).Lock(t.Context())
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorIs(t, err, coord.ErrBusy)
			assert.Equal(t, limit, time.Since(began))
		}
		a.Release()
		b.Release()
	})
}

// The request may have arrived, and then a reader may be in.
func TestADowngradeWithoutAnAnswerLeavesAReader(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		l := rwlock.New(c, "file", rwlock.Reentrant())
		h := locked(t)(l.Lock(t.Context()))
		inner := locked(t)(l.Lock(h.Context()))
		reader := rwlock.New(s.Client(), "file").RLockChan(t.Context())
		heal := s.Partition(c)
		second, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := l.Downgrade(second, h)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, coord.ErrUnsettled)
		heal()
		assert.NoError(t, h.Err())
		assert.Equal(t, "R", h.Node().Kind)
		assert.ErrorIs(t, inner.Release(), coord.ErrLost)
		bubble.Waits(t, reader) // as it happens, the service still has it as a writer
		_, err = l.Lock(h.Context())
		assert.ErrorIs(t, err, coord.ErrUpgrade, "it would write beside the reader")
		locked(t)(l.RLock(h.Context())).Release()

		require.NoError(t, l.Downgrade(t.Context(), h))
		assert.ErrorIs(t, l.Downgrade(t.Context(), h), coord.ErrInvalid, "it is a reader for certain")
		bubble.Enters(t, reader).Release()
		require.NoError(t, h.Release())
	})
}

func Example() {
	service := mem.New() // or zk.Connect, etcd.Connect
	defer service.Close()
	report := rwlock.New(service.Client(), "files/report")
	ctx := context.Background()

	h, _ := report.Lock(ctx)
	fmt.Println("writing; a reader may come in:", canRead(service))
	report.Downgrade(ctx, h)
	fmt.Println("reading; a reader may come in:", canRead(service))
	h.Release()
	// Output:
	// writing; a reader may come in: false
	// reading; a reader may come in: true
}

func canRead(service *mem.Service) bool {
	h, err := rwlock.New(service.Client(), "files/report").TryRLock(context.Background())
	if err == nil {
		h.Release()
	}
	return err == nil
}
