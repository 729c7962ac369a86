package register_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/internal/memory"
)

// Looking now and then would do, but is slow, and costs more.
func TestWhoWatchesTheWholeLineIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		watcher, _ := open(t, store)
		defer shut(t, watcher)
		d, s := open(t, store)
		defer shut(t, d)
		var there driver.Place
		for _, change := range []func(){
			func() { join(t, s, "line") },
			func() { there = join(t, s, "line") },
			func() {
				if err := there.Amend(t.Context(), "lock", []byte("new")); err != nil {
					t.Error(err)
				}
			},
			func() { leave(t, there) },
		} {
			seen, err := watcher.First(t.Context(), "line", driver.All, nil)
			if err != nil {
				t.Fatal(err)
			}
			told := make(chan time.Duration)
			go func() {
				began := time.Now()
				if _, err := watcher.First(t.Context(), "line", driver.All, &seen); err != nil {
					t.Error(err)
				}
				told <- time.Since(began)
			}()
			time.Sleep(time.Second) // after a look, and long before the next
			change()
			if after := <-told - time.Second; after > time.Second/10 {
				t.Errorf("told after %v", after)
			}
		}
	})
}
