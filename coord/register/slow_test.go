package register_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// slow is a store that takes its time.
type slow struct {
	register.Store
	trip time.Duration
}

func (s *slow) Read(ctx context.Context, key string) (register.Item, error) {
	time.Sleep(s.trip)
	return s.Store.Read(ctx, key)
}

func (s *slow) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	if strings.HasPrefix(w.Key, "line/") {
		time.Sleep(s.trip)
	}
	return s.Store.Swap(ctx, w)
}

func TestNobodyIsLetInBeforeTheSwap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := open(t, &slow{memory.NewStore(), 300 * time.Millisecond})
		defer shut(t, d)
		holder := join(t, s, "line")
		waiter, ahead, err := s.Join(t.Context(), driver.Entry{Line: "line", Kind: rules.Lock})
		if err != nil {
			t.Fatal(err)
		}
		left := time.Now()
		go holder.Leave(t.Context(), true)
		for len(ahead) > 0 && err == nil {
			ahead, err = waiter.Await(t.Context(), ahead)
		}
		if err != nil || time.Since(left) < 300*time.Millisecond {
			t.Errorf("it has its turn %v after the holder began to leave, which takes 300ms: %v", time.Since(left), err)
		}
		leave(t, waiter)
	})
}

func TestAHolderLooksByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewMuteStore()
		d, s := open(t, &slow{store, time.Millisecond})
		defer shut(t, d)
		operator, _ := open(t, store)
		defer shut(t, operator)
		holder := join(t, s, "line")
		removed := make(chan error, 1)
		go func() { removed <- holder.Watch(t.Context()) }()
		time.Sleep(time.Second)
		if err := operator.Remove(t.Context(), holder.Node()); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-removed:
			if err != driver.ErrRemoved {
				t.Errorf("Watch: %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Error("it never finds out that it was removed")
		}
	})
}

// slowed returns a driver whose link has become slow, and a session of it with its id.
func slowed(t *testing.T, store register.Store) (*register.Driver, driver.Session, string) {
	link := &slow{store, time.Millisecond}
	d, s := open(t, link)
	first := join(t, s, "line")
	id, _, _ := strings.Cut(first.Node().ID, "-")
	leave(t, first)
	link.trip = 300 * time.Millisecond
	return d, s, id
}

// A holder must not believe in its hold until a slow store answers. A waiter has time to ask, and joins again if its session
// is over.
func TestAWaiterTellsTheEndOfItsSessionFromARemovalOnASlowStore(t *testing.T) {
	for what, want := range map[string]error{"its session ends": driver.ErrSessionEnded, "it is removed": driver.ErrRemoved} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewMuteStore()
				other, os := open(t, store)
				defer shut(t, other)
				holder := join(t, os, "line")
				d, s, id := slowed(t, store)
				defer shut(t, d)
				waiter, ahead, err := s.Join(t.Context(), driver.Entry{Line: "line", Kind: rules.Lock})
				if err != nil {
					t.Fatal(err)
				}
				told := make(chan error, 1)
				go func() {
					_, err := waiter.Await(t.Context(), ahead)
					told <- err
				}()
				if want == driver.ErrSessionEnded {
					err = other.EndSession(t.Context(), id)
				} else {
					err = other.Remove(t.Context(), waiter.Node())
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := <-told; !errors.Is(err, want) {
					t.Errorf("Await: %v, want %v", err, want)
				}
				leave(t, holder)
			})
		})
	}
}

func TestAJoinThatTookLongMakesSureOfItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewMuteStore() // so that nobody tells the session that it has ended
		d, s, id := slowed(t, store)
		defer shut(t, d)
		operator, _ := open(t, store)
		defer shut(t, operator)
		other := make(chan error, 1)
		go func() {
			time.Sleep(100 * time.Millisecond)
			other <- operator.EndSession(t.Context(), id)
		}()
		_, _, err := s.Join(t.Context(), driver.Entry{Line: "another line", Kind: rules.Lock})
		if !errors.Is(err, driver.ErrSessionEnded) {
			t.Errorf("Join: %v, want that the session has ended", err)
		}
		if err := <-other; err != nil {
			t.Fatal(err)
		}
	})
}

func TestAnAmendmentThatChangesNothingAsksTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewMuteStore()
		d, s := open(t, store)
		defer shut(t, d)
		operator, _ := open(t, store)
		defer shut(t, operator)
		p := join(t, s, "line")
		if err := operator.Remove(t.Context(), p.Node()); err != nil {
			t.Fatal(err)
		}
		if err := p.Amend(t.Context(), rules.Lock, nil); err != driver.ErrRemoved {
			t.Errorf("Amend: %v, want %v", err, driver.ErrRemoved)
		}
	})
}

func TestASessionThatHasEndedPutsNobodyIntoALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		d, s, id := slowed(t, store)
		defer shut(t, d)
		operator, _ := open(t, store)
		defer shut(t, operator)
		joined := make(chan error, 1)
		go func() {
			_, _, err := s.Join(t.Context(), driver.Entry{Line: "another line", Kind: rules.Lock})
			joined <- err
		}()
		time.Sleep(100 * time.Millisecond) // it looks whether the line is there
		if err := operator.EndSession(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if err := <-joined; !errors.Is(err, driver.ErrSessionEnded) {
			t.Errorf("Join: %v, want that the session has ended", err)
		}
		for range 10 {
			time.Sleep(100 * time.Millisecond)
			if nodes, err := operator.Line(t.Context(), "another line"); err != nil || len(nodes) > 0 {
				t.Fatalf("in line are %v, %v", nodes, err)
			}
		}
	})
}

// TestAJoinOnASlowStoreFindsTheSessionEnded has all joins take long, so that one that takes a little longer is not suspect
// for that alone.
func TestAJoinOnASlowStoreFindsTheSessionEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		store := memory.NewMuteStore()
		other, _ := open(t, store)
		defer shut(t, other)
		link := &slow{store, 200 * time.Millisecond}
		d, s := open(t, link)
		defer shut(t, d)
		var id string
		for range 20 {
			p := join(t, s, "line")
			id, _, _ = strings.Cut(p.Node().ID, "-")
			leave(t, p)
		}
		link.trip = 700 * time.Millisecond
		go func() { _ = other.EndSession(ctx, id) }()
		if _, _, err := s.Join(ctx, driver.Entry{Line: "line", Kind: rules.Lock}); !errors.Is(err, driver.ErrSessionEnded) {
			t.Errorf("Join: %v, want ErrSessionEnded", err)
		}
	})
}
