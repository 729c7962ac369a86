package register_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// partly is a slow way to a store on which the requests of some lines fail.
type partly struct {
	register.Store
	rtt time.Duration
	bad atomic.Bool
}

func (p *partly) pass(ctx context.Context, key string) error {
	select {
	case <-time.After(p.rtt):
	case <-ctx.Done():
		return ctx.Err()
	}
	if p.bad.Load() && strings.Contains(key, "bad") {
		return errDown
	}
	return nil
}

func (p *partly) Read(ctx context.Context, key string) (register.Item, error) {
	if err := p.pass(ctx, key); err != nil {
		return register.Item{}, err
	}
	return p.Store.Read(ctx, key)
}

func (p *partly) Swap(ctx context.Context, s register.Swap) (register.Item, error) {
	if err := p.pass(ctx, s.Key); err != nil {
		return register.Item{}, err
	}
	return p.Store.Swap(ctx, s)
}

// Many lines cannot be reached, and somebody waits for each. Whoever wants another one gets it.
func TestRequestsThatAlwaysFailKeepNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		way := &partly{Store: memory.NewStore(), rtt: 20 * time.Millisecond}
		way.bad.Store(true)
		c := coord.NewClient(register.New(way))
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 1000 {
			mutex.New(c, fmt.Sprint("bad", i)).LockChan(ctx)
		}
		time.Sleep(10 * time.Second)
		for range 20 {
			soon, end := context.WithTimeout(ctx, time.Second)
			h, err := mutex.New(c, "good").Lock(soon)
			end()
			if err == nil {
				err = h.Release()
			}
			if err != nil {
				t.Error(err)
				break
			}
			time.Sleep(300 * time.Millisecond)
		}
		cancel()
		way.bad.Store(false)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	})
}
