package register_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// Some of what a note may say, to the first node of a session.
const (
	turn    = "T\x01"
	look    = "L\x01"
	removed = "R\x01"
	ended   = "X\x00"
)

// others is a store in memory that passes for one which strangers may reach. It counts reads, and may stall them.
type others struct {
	register.Store
	reads atomic.Int64
	stall atomic.Bool
	takes time.Duration // a read
}

func (s *others) Read(ctx context.Context, key string) (register.Item, error) {
	s.reads.Add(1)
	time.Sleep(s.takes)
	if s.stall.Load() {
		<-ctx.Done()
		return register.Item{}, ctx.Err()
	}
	return s.Store.Read(ctx, key)
}

// shout tells a place of another process such things.
func shout(t *testing.T, stranger register.Store, to driver.Place, things ...string) {
	t.Helper()
	id := to.Node().ID[:16]
	ctx := t.Context()
	it, err := stranger.Read(ctx, "stranger")
	require.NoError(t, err)
	note := slices.Clip(binary.AppendUvarint(append(make([]byte, 48), "\x04line"...), 1<<60))
	for _, what := range things {
		it, err = stranger.Swap(ctx, register.Swap{Key: "stranger", Old: it.Version, Next: register.NewVersion(),
			Notes: []register.Note{{Topic: "session/" + id, Text: append(note, what...)}}})
		require.NoError(t, err)
	}
	_, err = stranger.Swap(ctx, register.Swap{Key: "stranger", Old: it.Version})
	require.NoError(t, err)
}

func TestWhoTellsAllTheTimeMakesNobodyLookAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.NewStore()
		store := &others{Store: m.Link()}
		d := register.New(store)
		defer d.Close(t.Context())
		s, err := d.Open(t.Context())
		require.NoError(t, err)
		holder, _, err := s.Join(t.Context(), driver.Entry{Line: "line", Kind: "lock"})
		require.NoError(t, err)
		over := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { over <- holder.Watch(ctx) }()
		store.reads.Store(0)
		for range 1000 {
			shout(t, m.Link(), holder, turn, look, removed, ended)
			time.Sleep(time.Millisecond)
		}
		// In a second, both the place and the session ask at most twenty times.
		require.Less(t, store.reads.Load(), int64(60))
		require.Greater(t, store.reads.Load(), int64(10))
		require.Empty(t, over)
		select {
		case <-s.Done():
			t.Error("the session has ended")
		default:
		}
		cancel()
		<-over
	})
}

// As long as nothing can be asked, what ends a hold counts: it may be true, and then the next one is inside.
func TestWhoCannotAskWhetherHeWasRemovedStops(t *testing.T) {
	for _, what := range []string{removed, ended} {
		synctest.Test(t, func(t *testing.T) {
			m := memory.NewStore()
			store := &others{Store: m.Link()}
			d := register.New(store)
			defer d.Close(context.Background())
			s, err := d.Open(t.Context())
			require.NoError(t, err)
			holder, _, err := s.Join(t.Context(), driver.Entry{Line: "line", Kind: "lock"})
			require.NoError(t, err)
			over := make(chan error, 1)
			go func() { over <- holder.Watch(t.Context()) }()
			synctest.Wait()
			store.stall.Store(true)
			time.Sleep(time.Second)
			require.Empty(t, over, "not told anything")
			shout(t, m.Link(), holder, what)
			time.Sleep(register.DefaultTTL / 4)
			require.NotEmpty(t, over, "%q", what)
			store.stall.Store(false)
		})
	}
}

// aTurn has one wait behind another in a store that strangers may reach, until it is told of its turn. It returns the store of
// the one that has it.
func aTurn(t *testing.T, m *memory.Store, behind driver.Session) driver.Place {
	t.Helper()
	d := register.New(&others{Store: m.Link()})
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	s, err := d.Open(t.Context())
	require.NoError(t, err)
	ahead, _, err := s.Join(t.Context(), driver.Entry{Line: "line", Kind: "lock"})
	require.NoError(t, err)
	place, wait, err := behind.Join(t.Context(), driver.Entry{Line: "line", Kind: "lock", Sight: driver.Sight{Nearest: 1}})
	require.NoError(t, err)
	over := make(chan error, 1)
	go func() {
		_, err := place.Await(t.Context(), wait)
		over <- err
	}()
	synctest.Wait()
	require.NoError(t, ahead.Leave(t.Context(), true))
	require.NoError(t, <-over)
	return place
}

func TestWhoWasToldOfATurnDoesNotLookAllTheTimeEither(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		m := memory.NewStore()
		store := &others{Store: m.Link(), takes: 2 * time.Millisecond} // more is told while it looks
		d := register.New(store)
		defer d.Close(context.Background())
		s, err := d.Open(ctx)
		require.NoError(t, err)
		holder := aTurn(t, m, s)
		over := make(chan error, 1)
		wctx, stop := context.WithCancel(ctx)
		go func() { over <- holder.Watch(wctx) }()
		store.reads.Store(0)
		for range 1000 {
			shout(t, m.Link(), holder, removed)
			time.Sleep(time.Millisecond)
		}
		require.Less(t, store.reads.Load(), int64(60))
		require.Greater(t, store.reads.Load(), int64(10))
		require.Empty(t, over)
		stop()
		<-over
	})
}

// What a holder is told of an operator who ends its session names the cause.
func TestWhoeverEndsASessionIsNamedAsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.NewStore()
		d, operator := register.New(&others{Store: m.Link()}), register.New(&others{Store: m.Link()})
		defer d.Close(context.Background())
		defer operator.Close(context.Background())
		s, err := d.Open(t.Context())
		require.NoError(t, err)
		holder, _, err := s.Join(t.Context(), driver.Entry{Line: "line", Kind: "lock"})
		require.NoError(t, err)
		require.NoError(t, operator.EndSession(t.Context(), holder.Node().ID[:16]))
		require.ErrorContains(t, holder.Watch(t.Context()), "or an operator, has ended it")
	})
}

// slowToOpen is a store whose link is slow for once: right after a session has begun to listen.
type slowToOpen struct {
	register.Store
	meanwhile func(session string)
}

func (s *slowToOpen) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	if id, ok := strings.CutPrefix(w.Key, "session/"); ok && s.meanwhile != nil {
		s.meanwhile(id)
		s.meanwhile = nil
	}
	return s.Store.Swap(ctx, w)
}

// Who may write to one line can have a session stand in it that is about to be opened: its channel shows the id. Others find
// that there is no such session, and clear it away; but nowhere else.
func TestWhoStandsInAForgedLineStaysWhereHeStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		m := memory.NewStore()
		open := func(store register.Store, ttl time.Duration) driver.Session {
			d := register.New(store, register.WithTTL(ttl))
			t.Cleanup(func() { _ = d.Close(context.Background()) })
			s, err := d.Open(ctx)
			require.NoError(t, err)
			return s
		}
		join := func(s driver.Session, line string) (driver.Place, []driver.Node) {
			place, ahead, err := s.Join(ctx, driver.Entry{Line: line, Kind: "lock", Sight: driver.Sight{Nearest: 1}})
			require.NoError(t, err)
			return place, ahead
		}
		sweeper := open(m.Link(), register.MinTTL)
		other := open(m.Link(), register.MinTTL)
		forger := m.Link()
		victim := open(&slowToOpen{Store: m.Link(), meanwhile: func(session string) {
			place, _ := join(other, "evil")
			own, _ := hex.DecodeString(place.Node().ID[:16])
			id, _ := hex.DecodeString(session)
			it, err := forger.Read(ctx, "line/evil")
			require.NoError(t, err)
			_, err = forger.Swap(ctx, register.Swap{Key: it.Key, Old: it.Version, Next: register.NewVersion(), Value: bytes.ReplaceAll(it.Value, own, id)})
			require.NoError(t, err)
			time.Sleep(1900 * time.Millisecond)
			it, err = forger.Read(ctx, "line/evil")
			require.NoError(t, err)
			require.NotContains(t, string(it.Value), string(id), "it has been cleared away")
		}}, register.DefaultTTL)
		holder, _ := join(victim, "good")
		dies := open(m.Link(), register.MinTTL)
		join(dies, "good")
		dies.Abandon(ctx)
		waiter, ahead := join(sweeper, "good")
		entered := make(chan error, 1)
		go func() {
			var err error
			for len(ahead) > 0 {
				if ahead, err = waiter.Await(ctx, ahead); err != nil {
					break
				}
			}
			entered <- err
		}()
		wctx, stop := context.WithTimeout(ctx, 10*time.Second)
		defer stop()
		require.ErrorIs(t, holder.Watch(wctx), context.DeadlineExceeded, "who holds a lock in another line goes on")
		require.Empty(t, entered, "nobody enters beside it")
	})
}
