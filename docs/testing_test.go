package docs

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/fence"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// What follows is shown in testing.md.

func reindex(ctx context.Context, client *coord.Client, part func(context.Context) error) error {
	return mutex.New(client, "index").Do(ctx, func(ctx context.Context, h *coord.Hold) error {
		for ctx.Err() == nil {
			if err := part(ctx); err != nil {
				return err
			}
		}
		return context.Cause(ctx)
	})
}

func TestWorkStopsBeforeTheNextOneBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := mem.New()
		defer service.Close()
		mine, other := service.Client(), service.Client() // as if in two processes
		var parts atomic.Int64
		ended := make(chan error, 1)
		go func() {
			ended <- reindex(t.Context(), mine, func(context.Context) error {
				time.Sleep(100 * time.Millisecond) // takes no time here
				parts.Add(1)
				return nil
			})
		}()
		synctest.Wait() // until the work is under way
		service.Partition(mine)
		next, err := mutex.New(other, "index").Lock(t.Context()) // once mine's session is over
		if err != nil {
			t.Fatal(err)
		}
		defer next.Release()
		before := parts.Load()
		if err := <-ended; !errors.Is(err, coord.ErrLost) {
			t.Error(err)
		}
		if parts.Load() > before {
			t.Error("the work has gone on beside the next one")
		}
	})
}

func TestALateWriteIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := mem.New()
		defer service.Close()
		var store fence.Local // stands for what you write to
		slow := service.Client()
		old, err := mutex.New(slow, "index").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		service.Expire(slow) // which is stopped, say, and has not noticed
		next, err := mutex.New(service.Client(), "index").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer next.Release()
		if err := store.Pass(t.Context(), "index", fence.Stamp{Token: next.Token()}); err != nil {
			t.Error(err)
		}
		if err := store.Pass(t.Context(), "index", fence.Stamp{Token: old.Token()}); !errors.Is(err, coord.ErrStale) {
			t.Error(err)
		}
	})
}

func TestNothingIsDoneWhileTheServiceIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := mem.New()
		defer service.Close()
		client := service.Client()
		heal := service.Partition(client)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := reindex(ctx, client, func(context.Context) error {
			t.Error("it works without the lock")
			return errors.New("done")
		})
		if !errors.Is(err, coord.ErrUnavailable) {
			t.Error(err)
		}
		heal()
	})
}

// refusing is a service that lets nobody in.
type refusing struct{ driver.Driver }

func (refusing) Open(context.Context) (driver.Session, error) { return nil, driver.ErrDenied }

func TestARefusalIsReported(t *testing.T) {
	service := mem.New()
	defer service.Close()
	client := coord.NewClient(refusing{service.Client().Driver()})
	defer client.Close()
	if err := reindex(t.Context(), client, nil); !errors.Is(err, coord.ErrDenied) {
		t.Error(err)
	}
}

// until returns as soon as so many stand in a line, whatever service it is.
func until(ctx context.Context, client *coord.Client, line string, many int) error {
	for view, err := range client.WatchLine(ctx, line) {
		if err == nil && len(view.Nodes) == many {
			return nil
		}
	}
	return ctx.Err()
}

func TestWhoWaitsIsNext(t *testing.T) {
	service := mem.New()
	defer service.Close()
	client := service.Client()
	first, err := mutex.New(client, "index").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second := mutex.New(service.Client(), "index").LockChan(t.Context())
	if err := until(t.Context(), client, "index", 2); err != nil {
		t.Fatal(err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	r := <-second
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if err := r.Hold.Release(); err != nil {
		t.Fatal(err)
	}
	if lines, err := client.Lines(t.Context(), ""); err != nil || len(lines) > 0 {
		t.Errorf("something was left in %q (%v)", lines, err)
	}
}

// What testing.md tells of the three ways to take a hold away.
func TestWhatEndsAHoldOnDemand(t *testing.T) {
	const ttl = 10 * time.Second
	for name, c := range map[string]struct {
		end         func(s *mem.Service, c *coord.Client, h *coord.Hold)
		least, most time.Duration
		is          error
	}{
		"Partition": {func(s *mem.Service, c *coord.Client, _ *coord.Hold) { s.Partition(c) }, ttl / 2, ttl, coord.ErrLost},
		"Expire":    {func(s *mem.Service, c *coord.Client, _ *coord.Hold) { s.Expire(c) }, 0, time.Second, coord.ErrLost},
		"Remove":    {func(s *mem.Service, _ *coord.Client, h *coord.Hold) { s.Remove(h.Node()) }, 0, time.Second, coord.ErrRemoved},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := mem.New(mem.WithTTL(ttl))
				defer service.Close()
				client := service.Client()
				h, err := mutex.New(client, "index").Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				began := time.Now()
				c.end(service, client, h)
				<-h.Context().Done()
				if took := time.Since(began); took < c.least || took > c.most || !errors.Is(h.Err(), c.is) || !errors.Is(h.Err(), coord.ErrLost) {
					t.Errorf("after %v: %v", took, h.Err())
				}
			})
		})
	}
}
