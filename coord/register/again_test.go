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
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// unsure loses the answer to the first swap that makes a line longer, and then answers nothing about lines until it is
// sure again. While it is deaf, its notes are lost.
type unsure struct {
	register.Store
	lost, deaf atomic.Bool
	sure       chan struct{}
}

// OnlySwapsTell says that notes are believed, as in any store within a process.
func (s *unsure) OnlySwapsTell() {}

func (s *unsure) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	it, err := s.Store.Swap(ctx, w)
	if strings.HasPrefix(w.Key, "line/") && s.lost.CompareAndSwap(false, true) {
		return register.Item{}, errors.New("no answer")
	}
	return it, err
}

func (s *unsure) Read(ctx context.Context, key string) (register.Item, error) {
	if strings.HasPrefix(key, "line/") && s.lost.Load() {
		select {
		case <-s.sure:
		case <-ctx.Done():
			return register.Item{}, ctx.Err()
		}
	}
	return s.Store.Read(ctx, key)
}

func (s *unsure) Listen(ctx context.Context, topic string, hear func([]byte)) (func(), error) {
	return s.Store.Listen(ctx, topic, func(note []byte) {
		if s.deaf.Load() {
			note = nil
		}
		hear(note)
	})
}

// The first try of a join is applied, and somebody removes the node before its owner knows. Then the next try makes another
// node. What was told of the first one is not about the second.
func TestWhatWasToldOfAFirstTryIsNotAboutTheNext(t *testing.T) {
	for name, deaf := range map[string]bool{"its removal": false, "its turn": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewStore()
				other, s := open(t, store)
				defer shut(t, other)
				first := join(t, s, "line")

				link := &unsure{Store: store, sure: make(chan struct{})}
				d, waiting := open(t, link)
				defer shut(t, d)
				joined := make(chan driver.Place)
				go func() {
					p, _, err := waiting.Join(t.Context(), driver.Entry{Line: "line", Kind: rules.Lock})
					if err != nil {
						t.Errorf("Join: %v", err)
					}
					joined <- p
				}()
				time.Sleep(100 * time.Millisecond)
				leave(t, first)
				time.Sleep(100 * time.Millisecond)
				link.deaf.Store(deaf)
				nodes, err := other.Line(t.Context(), "line")
				if err != nil || len(nodes) != 1 {
					t.Fatalf("in line are %v, %v", nodes, err)
				}
				if err := other.Remove(t.Context(), nodes[0]); err != nil {
					t.Fatal(err)
				}
				holder := join(t, s, "line")
				time.Sleep(100 * time.Millisecond)
				link.deaf.Store(false)
				close(link.sure)
				me := <-joined

				soon, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				if _, err := me.Await(soon, []driver.Node{holder.Node()}); soon.Err() == nil {
					t.Fatalf("Await beside a holder: %v", err)
				}
				leave(t, holder)
				if ahead, err := me.Await(t.Context(), []driver.Node{holder.Node()}); err != nil || len(ahead) > 0 {
					t.Errorf("Await: %v, %v", ahead, err)
				}
				leave(t, me)
			})
		})
	}
}
