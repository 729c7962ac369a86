package register_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// startedAnew is the way to a store that tells whoever asks first that the server was started anew.
type startedAnew struct {
	replaceable
	untold atomic.Bool
}

func (s *startedAnew) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	if s.untold.CompareAndSwap(true, false) {
		return errDown
	}
	return s.to().List(ctx, prefix, yield)
}

func (s *startedAnew) Listen(ctx context.Context, topic string, hear func([]byte)) (stop func(), err error) {
	if s.untold.CompareAndSwap(true, false) {
		return nil, errDown
	}
	return s.to().Listen(ctx, topic, hear)
}

func (s *startedAnew) Memory(ctx context.Context) (register.Memory, error) {
	if s.untold.CompareAndSwap(true, false) {
		return register.Memory{}, errDown
	}
	return s.to().Memory(ctx)
}

// It may be whoever only lists, listens or opens a session who is told first that the server was away.
func TestWhateverHasFailedNobodyEntersOnASessionFromAnOlderDisk(t *testing.T) {
	for name, ask := range map[string]func(t *testing.T, d *register.Driver){
		"a list": func(t *testing.T, d *register.Driver) { _, _ = d.Lines(t.Context(), "") },
		"a watch": func(t *testing.T, d *register.Driver) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, _ = d.First(ctx, "orders", 1, &driver.Look{})
		},
		"a session": func(t *testing.T, d *register.Driver) { _, _ = d.Open(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := memory.NewStore()
				way := &startedAnew{replaceable: replaceable{Store: server}}
				d, s := open(t, way)
				defer shut(t, d)
				disk := copyOf(t, server)
				time.Sleep(register.DefaultTTL * 3 / 8) // it is renewed
				holding, holder := open(t, server)
				defer shut(t, holding)
				join(t, holder, "orders")
				way.other.Store(disk)
				way.untold.Store(true)
				ask(t, d)
				if way.untold.Load() {
					t.Fatal("nothing was asked")
				}
				if _, _, err := s.Join(t.Context(), driver.Entry{Line: "orders", Kind: rules.Lock}); err == nil {
					t.Error("somebody enters beside the holder")
				}
			})
		})
	}
}
