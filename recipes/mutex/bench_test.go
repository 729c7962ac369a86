package mutex_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// What a lock costs without a service: the engine's own work.
func BenchmarkLockAndRelease(b *testing.B) {
	service := mem.New()
	defer service.Close()
	m := mutex.New(service.Client(), "line")
	b.ReportAllocs()
	for b.Loop() {
		h, err := m.Lock(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		h.Release()
	}
}

func BenchmarkTryABusyLine(b *testing.B) {
	service := mem.New()
	defer service.Close()
	if _, err := mutex.New(service.Client(), "line").Lock(b.Context()); err != nil {
		b.Fatal(err)
	}
	m := mutex.New(service.Client(), "line")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.TryLock(b.Context()); !errors.Is(err, coord.ErrBusy) {
			b.Fatal(err)
		}
	}
}

func BenchmarkHandOff(b *testing.B) {
	service := mem.New()
	defer service.Close()
	b.ReportAllocs()
	var all sync.WaitGroup
	for range 2 {
		m := mutex.New(service.Client(), "line")
		all.Go(func() {
			for range b.N / 2 {
				h, err := m.Lock(b.Context())
				if err != nil {
					b.Error(err)
					return
				}
				h.Release()
			}
		})
	}
	all.Wait()
}
