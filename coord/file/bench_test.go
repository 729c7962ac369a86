//go:build linux || darwin

package file

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func BenchmarkSwap(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "locks"))
	item := put(b, s, "k", "x")
	for b.Loop() {
		var err error
		if item, err = s.Swap(b.Context(), register.Swap{Key: "k", Old: item.Version, Next: register.NewVersion(), Value: item.Value}); err != nil {
			b.Fatal(err)
		}
	}
}

func clientsOn(b *testing.B, n int) (all []*coord.Client) {
	dir := filepath.Join(b.TempDir(), "locks")
	for range n {
		c, err := Connect(b.Context(), dir)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Close() })
		all = append(all, c)
	}
	return all
}

func BenchmarkUncontended(b *testing.B) {
	m := mutex.New(clientsOn(b, 1)[0], "line")
	for b.Loop() {
		h, err := m.Lock(b.Context())
		if err == nil {
			err = h.Release()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// Two clients take turns, so each hold is handed on by the other one.
func BenchmarkHandOff(b *testing.B) {
	clients := clientsOn(b, 2)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for m := mutex.New(clients[1], "line"); ; {
			h, err := m.Lock(ctx)
			if err != nil {
				return
			}
			_ = h.Release()
		}
	}()
	m := mutex.New(clients[0], "line")
	for b.Loop() {
		h, err := m.Lock(ctx)
		if err == nil {
			err = h.Release()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	<-done
}
