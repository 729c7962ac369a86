package register_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// The driver's own cost: the store is in this process.
func BenchmarkSolo(b *testing.B) {
	c := coord.NewClient(register.New(memory.NewStore()))
	defer c.Close()
	m := mutex.New(c, "solo")
	b.ReportAllocs()
	for b.Loop() {
		h, err := m.Lock(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		h.Release()
	}
}

// Each contender is a process of its own.
func BenchmarkContended(b *testing.B) {
	for _, n := range []int{2, 16} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			store := memory.NewStore()
			turns := make(chan struct{}, b.N)
			for range b.N {
				turns <- struct{}{}
			}
			close(turns)
			var all sync.WaitGroup
			for range n {
				c := coord.NewClient(register.New(store))
				defer c.Close()
				m := mutex.New(c, "contended")
				all.Go(func() {
					for range turns {
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
		})
	}
}

// A long line, of sixteen processes, is drained: the time of a hand-off.
func BenchmarkDrain(b *testing.B) {
	for _, waiters := range []int{100, 1000, 4000} {
		b.Run(fmt.Sprint(waiters), func(b *testing.B) {
			store := memory.NewStore()
			var sessions []driver.Session
			for range 16 {
				d := register.New(store)
				defer d.Close(context.Background())
				s, err := d.Open(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				sessions = append(sessions, s)
			}
			done := 0
			for done < b.N {
				b.StopTimer()
				var places []driver.Place
				var aheads [][]driver.Node
				for i := range waiters {
					p, ahead, err := sessions[i%16].Join(b.Context(), driver.Entry{Line: "long", Kind: rules.Lock})
					if err != nil {
						b.Fatal(err)
					}
					places, aheads = append(places, p), append(aheads, ahead)
				}
				b.StartTimer()
				for i, p := range places {
					for ahead := aheads[i]; len(ahead) > 0; {
						var err error
						if ahead, err = p.Await(b.Context(), ahead); err != nil {
							b.Fatal(err)
						}
					}
					if err := p.Leave(b.Context(), true); err != nil {
						b.Fatal(err)
					}
					done++
				}
			}
		})
	}
}
