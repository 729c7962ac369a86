package register_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// hiding is a store whose lists lack the sessions. They stand all the same, for whoever asks, unless that fails.
type hiding struct {
	register.Store
	hides, mute atomic.Bool
	reads       atomic.Int64
}

func (h *hiding) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	if strings.HasPrefix(prefix, "session/") && h.hides.Load() {
		return nil
	}
	return h.Store.List(ctx, prefix, yield)
}

func (h *hiding) Read(ctx context.Context, key string) (register.Item, error) {
	if strings.HasPrefix(key, "session/") {
		h.reads.Add(1)
		if h.mute.Load() {
			return register.Item{}, errors.New("not now")
		}
	}
	return h.Store.Read(ctx, key)
}

// Whoever is buried is not told, and may hold for long yet. So a list that lacks a session buries nobody: a page may have got lost, or a
// label by which the system lists.
func TestAListThatLacksASessionBuriesNobody(t *testing.T) {
	for name, mute := range map[string]bool{"it is asked for": false, "nobody can say": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewStore()
				way := &hiding{Store: store}
				sweeper, _ := open(t, way)
				defer shut(t, sweeper)
				time.Sleep(time.Minute)
				holder, s := open(t, store)
				defer shut(t, holder)
				p, _, err := s.Join(t.Context(), driver.Entry{Line: "line", Kind: "lock", Data: make([]byte, 1000)})
				if err != nil {
					t.Fatal(err)
				}
				way.hides.Store(true)
				way.mute.Store(mute)
				time.Sleep(10 * time.Minute)
				if all, err := holder.Line(t.Context(), "line"); err != nil || len(all) != 1 || len(all[0].Data) != 1000 {
					t.Errorf("%v stand, %v", all, err)
				}
				leave(t, p)
			})
		})
	}
}

// The dead are asked for once, however long the line stands that nobody can clear.
func TestTheDeadAreAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		way := &hiding{Store: stuck{Store: store, is: func(key string) bool { return strings.HasPrefix(key, "line/") }}}
		sweeper, _ := open(t, way)
		defer shut(t, sweeper)
		time.Sleep(time.Minute)
		dying, s := open(t, store)
		join(t, s, "line")
		s.Abandon(t.Context())
		shut(t, dying)
		time.Sleep(5 * time.Minute)
		before := way.reads.Load()
		time.Sleep(time.Hour)
		if more := way.reads.Load() - before; more > 0 {
			t.Errorf("asked %d times more", more)
		}
	})
}

// Many die at once. Whoever ends their sessions asks for none of them again.
func TestWhoWasEndedHereIsNotAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		way := &hiding{Store: store}
		sweeper, _ := open(t, way)
		defer shut(t, sweeper)
		time.Sleep(time.Minute)
		for range 20 {
			dying, s := open(t, store)
			join(t, s, "line")
			s.Abandon(t.Context())
			shut(t, dying)
		}
		before := way.reads.Load()
		time.Sleep(5 * time.Minute)
		if all, err := sweeper.Line(t.Context(), "line"); err != nil || len(all) > 0 {
			t.Errorf("%d stand, %v", len(all), err)
		}
		if n := way.reads.Load() - before; n > 0 {
			t.Errorf("asked %d times", n)
		}
	})
}
