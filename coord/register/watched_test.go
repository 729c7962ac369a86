package register_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// Nobody waits for the members of a group. If the one that died was the sweeper, others take its place only after a while.
func TestWhoWatchesALineHearsOfADeathWithinATTL(t *testing.T) {
	const ttl = time.Minute
	for _, c := range []struct{ members, die, most int }{
		{3, 1, driver.All},
		{1, 1, 1},
		{3, 2, driver.All},
		{40, 20, driver.All},
	} {
		t.Run(fmt.Sprintf("%d of %d die, watched by %d", c.die, c.members, min(c.most, c.members)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				store := memory.NewStore()
				var heal []func()
				var links []*memory.Link
				for i := range c.members {
					link := store.Link()
					links = append(links, link)
					d, s := open(t, link, register.WithTTL(ttl))
					defer d.Close(ctx)
					if _, _, err := s.Join(ctx, driver.Entry{Line: "line", Kind: rules.Reader}); err != nil {
						t.Fatal(err)
					}
					if i == 0 {
						time.Sleep(2 * ttl) // so that it is the sweeper
					} else {
						go watchAll(ctx, d)
					}
				}
				observer := register.New(store)
				defer observer.Close(ctx)
				look, err := observer.First(ctx, "line", c.most, nil)
				time.Sleep(2 * ttl)
				for _, link := range links[:c.die] {
					heal = append(heal, link.Cut())
				}
				began := time.Now()
				for left := min(c.members, c.most) - min(c.die, c.most); err == nil && len(look.Nodes) > left; {
					look, err = observer.First(ctx, "line", c.most, &look)
				}
				most := ttl + ttl/2
				if c.members > 8 { // nobody looks after all: of many that die at once some are missed at first, and in one run of 200 a second time
					most = 2 * ttl
				}
				if took := time.Since(began); err != nil || took > most {
					t.Errorf("%d stand after %v, %v", len(look.Nodes), took, err)
				}
				for _, heal := range heal {
					heal()
				}
			})
		})
	}
}

func watchAll(ctx context.Context, d *register.Driver) {
	look, err := d.First(ctx, "line", driver.All, nil)
	for err == nil {
		look, err = d.First(ctx, "line", driver.All, &look)
	}
}

// Each change is a new look, and a session has to be seen to stand still for longer than that.
func TestALineThatChangesAllTheTimeIsWatchedOver(t *testing.T) {
	const ttl = time.Minute
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		store := memory.NewStore()
		link := store.Link()
		dies, s := open(t, link, register.WithTTL(ttl))
		defer dies.Close(ctx)
		first := join(t, s, "line").Node()
		time.Sleep(2 * ttl) // so that it is the sweeper
		restless, r := open(t, store, register.WithTTL(ttl))
		defer shut(t, restless)
		stop := make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				p, _, err := r.Join(ctx, driver.Entry{Line: "line", Kind: rules.Reader})
				if err != nil {
					t.Error(err)
					return
				}
				select {
				case <-time.After(time.Second):
					_ = p.Leave(ctx, false)
				case <-stop:
					return
				}
			}
		}()
		observer := register.New(store)
		defer observer.Close(ctx)
		time.Sleep(2 * ttl)
		heal := link.Cut()
		defer heal()
		began := time.Now()
		look, err := observer.First(ctx, "line", driver.All, nil)
		for err == nil && len(look.Nodes) > 0 && look.Nodes[0].ID == first.ID {
			look, err = observer.First(ctx, "line", driver.All, &look)
		}
		if took := time.Since(began); err != nil || took > ttl+ttl/2 {
			t.Errorf("it stands after %v, %v", took, err)
		}
		close(stop)
		<-ended
	})
}
