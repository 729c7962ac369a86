package register

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// clerkUsers counts those for whom clerks are kept.
func clerkUsers(d *Driver) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.clerks {
		n += c.inUse
	}
	return n
}

// openQuiet opens a session at a store that tells of nothing, and closes all with the test.
func openQuiet(t *testing.T) (*Driver, driver.Session) {
	t.Helper()
	d := New(newQuietStore())
	t.Cleanup(func() { d.Close(context.Background()) })
	s, err := d.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d, s
}

func TestNoClerkIsKeptForASessionThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := openQuiet(t)
		for i := range 10 {
			p, _, err := s.Join(t.Context(), driver.Entry{Line: fmt.Sprint("line ", i), Kind: rules.Lock})
			if err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				s.(*session).life.End(errEnded)
				p.Leave(t.Context(), true)
				if s, err = d.Open(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.(*session).life.End(errEnded)
		synctest.Wait()
		if n := clerkUsers(d); n > 0 {
			t.Errorf("clerks are kept for %d", n)
		}
	})
}

func TestNothingIsKeptForATryThatWouldHaveToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := openQuiet(t)
		holder, _, err := s.Join(t.Context(), driver.Entry{Line: "line", Kind: rules.Lock})
		if err != nil {
			t.Fatal(err)
		}
		free := func(ahead []driver.Node) bool { return len(ahead) == 0 }
		for range 10 {
			if _, _, err := s.Join(t.Context(), driver.Entry{Line: "line", Kind: rules.Lock, Free: free}); err != driver.ErrBusy {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := clerkUsers(d); n != 1 {
			t.Errorf("clerks are kept for %d, and one is in line", n)
		}
		if err := holder.Leave(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	})
}

func TestNoVigilIsKeptOnceNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newQuietStore()
		join := func(d *Driver) driver.Place {
			s, err := d.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p, _, err := s.Join(t.Context(), driver.Entry{Line: "line", Kind: rules.Lock})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		theirs, ours := New(store), New(store)
		defer theirs.Close(context.Background())
		defer ours.Close(context.Background())
		vigils := func() int {
			ours.mu.Lock()
			defer ours.mu.Unlock()
			return len(ours.vigils)
		}
		holder, waiter := join(theirs), join(ours)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(time.Second)
			if n := vigils(); n != 1 {
				t.Errorf("%d sessions are watched over, and one is in the way", n)
			}
			cancel()
		}()
		if _, err := waiter.Await(ctx, []driver.Node{holder.Node()}); err == nil {
			t.Error("it waits no longer, and the holder is there")
		}
		synctest.Wait()
		if n := vigils(); n != 0 {
			t.Errorf("%d sessions are still watched over", n)
		}
	})
}

func TestNobodyWaitsForADriverThatIsClosed(t *testing.T) {
	d := New(newQuietStore())
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, leave := d.clerk("line")
	defer leave()
	select {
	case <-c.want(newWish(nil, func(*draft, try) error { return nil })).done:
	case <-time.After(10 * time.Second):
		t.Error("a wish is never decided")
	}
}

func TestNothingIsReadOnceTheContextHasEnded(t *testing.T) {
	d := New(newQuietStore())
	defer d.Close(context.Background())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if it, err := d.readItem(ctx, "key"); !errors.Is(err, context.Canceled) {
		t.Errorf("it returns %+v, %v", it, err)
	}
}

// quietStore is the least that a session needs.
type quietStore struct {
	Store
	mu    sync.Mutex
	items map[string]Item
}

func (*quietStore) Strength() driver.Strength { return driver.Strength{} }

func newQuietStore() *quietStore { return &quietStore{items: make(map[string]Item)} }

func (q *quietStore) Read(_ context.Context, key string) (Item, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.items[key]
	it.Key = key
	return it, nil
}

func (q *quietStore) Swap(_ context.Context, s Swap) (Item, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := q.items[s.Key]; now.Version != s.Old {
		return now, ErrConflict
	}
	q.items[s.Key] = Item{Key: s.Key, Value: s.Value, Version: s.Next}
	return q.items[s.Key], nil
}

func (q *quietStore) List(context.Context, string, func(Item) bool) error { return nil }

func (q *quietStore) Listen(context.Context, string, func([]byte)) (func(), error) {
	return nil, ErrMute
}

func (q *quietStore) Memory(context.Context) (Memory, error) { return Memory{For: Forever}, nil }

func (q *quietStore) Close() error { return nil }

// unswapped refuses all swaps while it is away.
type unswapped struct {
	quietStore
	away atomic.Bool
}

func (u *unswapped) Swap(ctx context.Context, s Swap) (Item, error) {
	if u.away.Load() {
		return Item{}, errors.New("connection refused")
	}
	return u.quietStore.Swap(ctx, s)
}

func TestARenewalThatFailsForDaysTakesLittleMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &unswapped{quietStore: *newQuietStore()}
		d := New(store)
		defer d.Close(context.Background())
		opened, err := d.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s := opened.(*session)
		store.away.Store(true)
		tries := func() int {
			s.renewing.Lock()
			defer s.renewing.Unlock()
			return len(s.tries)
		}
		time.Sleep(2 * time.Hour)
		early := tries()
		time.Sleep(22 * time.Hour)
		if late := tries(); early == 0 || late > early+early/4 {
			t.Errorf("%d tries are kept after two hours, %d after a day", early, late)
		}
		store.away.Store(false)
	})
}
