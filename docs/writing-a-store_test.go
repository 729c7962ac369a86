package docs

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
	"github.com/turnwise/turnwise/coord/register/storetest"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// What follows is shown in writing-a-store.md.

// shelf stands for the system: a map that can be emptied under us.
type shelf struct {
	mu     sync.Mutex
	kept   map[string]kept
	memory *memory // since it was emptied last
}

type kept struct {
	value   []byte
	version register.Version
	since   time.Time
}

type memory struct {
	id    string
	began time.Time
}

func (m *memory) ID() string         { return m.id }
func (m *memory) For() time.Duration { return time.Since(m.began) }

func newShelf() *shelf {
	s := new(shelf)
	s.forget()
	return s
}

// forget empties the shelf, as a restart empties a cache. The mark of its memory goes with the rest.
func (s *shelf) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept, s.memory = make(map[string]kept), &memory{rand.Text(), time.Now()}
}

// mapStore is a shelf as one process sees it.
type mapStore struct {
	shelf  *shelf
	known  *storekit.Known[*memory]
	closed atomic.Bool
}

var _ register.Store = (*mapStore)(nil)

func newMapStore(s *shelf) *mapStore { return &mapStore{shelf: s, known: storekit.NewKnown[*memory]()} }

// begin takes the shelf for one call, or says why that must do nothing.
func (s *mapStore) begin(ctx context.Context) (done func(), err error) {
	known, err := s.known.Current()
	switch {
	case s.closed.Load():
		return nil, storekit.ErrClosed
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err // register.ErrForgot, until Memory is called
	}
	s.shelf.mu.Lock()
	if s.shelf.memory != known {
		s.shelf.mu.Unlock()
		s.known.Forget(known)
		return nil, register.ErrForgot
	}
	return s.shelf.mu.Unlock, nil
}

func (s *mapStore) Memory(ctx context.Context) (register.Memory, error) {
	return s.known.Recall(ctx, func(*memory) (*memory, error) {
		if s.closed.Load() {
			return nil, storekit.ErrClosed
		}
		s.shelf.mu.Lock()
		defer s.shelf.mu.Unlock()
		return s.shelf.memory, ctx.Err()
	})
}

func (s *mapStore) Read(ctx context.Context, key string) (register.Item, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return register.Item{}, err
	}
	defer done()
	return s.shelf.item(key), nil
}

// item is what stands in a register. It needs mu.
func (s *shelf) item(key string) register.Item {
	k, ok := s.kept[key]
	if !ok {
		return register.Item{Key: key}
	}
	return register.Item{Key: key, Value: k.value, Version: k.version, Age: time.Since(k.since), Clock: s.memory.For()}
}

func (s *mapStore) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return register.Item{}, err
	}
	defer done()
	switch s.shelf.kept[w.Key].version {
	case w.Old:
	case w.Next:
		return s.shelf.item(w.Key), nil // an earlier try of this swap
	default:
		return s.shelf.item(w.Key), register.ErrConflict
	}
	if w.Next.IsZero() {
		delete(s.shelf.kept, w.Key)
	} else {
		s.shelf.kept[w.Key] = kept{w.Value, w.Next, time.Now()}
	}
	return s.shelf.item(w.Key), nil
}

func (s *mapStore) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	var all []register.Item
	for key := range s.shelf.kept {
		if strings.HasPrefix(key, prefix) {
			all = append(all, s.shelf.item(key))
		}
	}
	done() // yield may take its time, and call the store
	for _, it := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !yield(it) {
			break
		}
	}
	return nil
}

func (s *mapStore) Listen(context.Context, string, func([]byte)) (stop func(), err error) {
	return nil, register.ErrMute
}

func (s *mapStore) Strength() driver.Strength {
	return driver.Strength{Restart: driver.ForgetsOpenly, Failover: driver.NoFailover, Tokens: driver.RiseWhileRemembered, WakeUp: driver.Polled}
}

func (s *mapStore) Close() error {
	s.closed.Store(true)
	return nil
}

// pkg begins the errors of the package.
const pkg storekit.Package = "shelf"

type config struct{ storekit.Settings }

type Option func(*config)

func WithTTL(ttl time.Duration) Option        { return func(c *config) { c.TTL = ttl } }
func WithLongestTTL(ttl time.Duration) Option { return func(c *config) { c.Longest = ttl } }
func WithLogger(l *slog.Logger) Option        { return func(c *config) { c.Log = l } }
func WithClient(opts ...coord.Option) Option  { return func(c *config) { c.AddClient(opts) } }

// Connect returns a client on the shelf at an address.
func Connect(ctx context.Context, address string, opts ...Option) (*coord.Client, error) {
	var c config
	if err := storekit.Configure(pkg, storekit.ToConnect, &c, &c.Settings, opts); err != nil {
		return nil, err
	}
	return storekit.Connect(ctx, pkg, c.Settings, new(mapStore), func(ctx context.Context) (*mapStore, error) {
		return openShelf(ctx, address, c.Settings)
	})
}

func openShelf(ctx context.Context, address string, c storekit.Settings) (s *mapStore, err error) {
	find := func(context.Context) error {
		found, ok := shelves[address]
		if !ok {
			return errors.New("nobody is there") // tried again until time is up
		}
		s = newMapStore(found)
		return nil
	}
	remembers := func(ctx context.Context) error {
		_, err := s.Memory(ctx)
		return err
	}
	if err := pkg.TakeSteps(ctx, address, c.Log, find, remembers); err != nil {
		return nil, err
	}
	return s, nil
}

var shelves = map[string]*shelf{"here": newShelf()}

func TestConnectInThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := Connect(t.Context(), "here", WithTTL(time.Second), WithLongestTTL(time.Second), WithLogger(slog.Default()))
		if err != nil {
			t.Fatal(err)
		}
		h, err := mutex.New(client, "reports").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Release(); err != nil {
			t.Error(err)
		}
		client.Close()
		for name, c := range map[string]struct {
			address string
			o       Option
			class   error
		}{
			"nobody is there":  {"nowhere", nil, coord.ErrUnavailable},
			"a short TTL":      {"nowhere", WithTTL(10), coord.ErrInvalid},
			"it is too little": {"nowhere", WithClient(coord.Require(coord.Strength{Restart: coord.Remembers})), coord.ErrTooWeak},
		} {
			began := time.Now()
			_, err := Connect(t.Context(), c.address, c.o)
			if took := time.Since(began); !errors.Is(err, c.class) || (took > 0) != (c.class == coord.ErrUnavailable) {
				t.Errorf("%s: %v, after %v", name, err, took)
			}
		}
	})
}

func mapSystem(testing.TB) *storetest.System {
	system := newShelf()
	return &storetest.System{
		Open: func(t testing.TB) register.Store {
			store := newMapStore(system)
			if _, err := store.Memory(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			return store
		},
		Mute:   true,
		Ages:   true,
		Clock:  true,
		Forget: func(testing.TB) { system.forget() },
	}
}

func mapService(t testing.TB) *drivertest.Service { return storetest.Service(t, mapSystem(t)) }

// Each of these takes half a minute, and shows nothing of the pages.
func TestWhatStandsOnMapStore(t *testing.T) {
	if os.Getenv("TURNWISE_LONG") == "" {
		t.Skip("TURNWISE_LONG is not set")
	}
	t.Run("driver", func(t *testing.T) { drivertest.Run(t, mapService) })
	t.Run("recipes", func(t *testing.T) { drivertest.RunRecipes(t, mapService) })
}

func TestMapStore(t *testing.T) { storetest.Run(t, mapSystem) }

func TestRecipesStandOnTheStoreInThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := newShelf()
		one := coord.NewClient(register.New(newMapStore(system)))
		defer one.Close()
		other := coord.NewClient(register.New(newMapStore(system)))
		defer other.Close()
		held, err := mutex.New(one, "reports").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := mutex.New(other, "reports").TryLock(t.Context()); !errors.Is(err, coord.ErrBusy) {
			t.Errorf("it is held, and another one hears %v", err)
		}
		system.forget()
		next, err := mutex.New(other, "reports").Lock(t.Context()) // once nobody can believe in the old hold
		if err != nil {
			t.Fatal(err)
		}
		defer next.Release()
		if err := held.Err(); !errors.Is(err, coord.ErrLost) {
			t.Errorf("the store has forgotten, and the holder hears %v", err)
		}
	})
}
