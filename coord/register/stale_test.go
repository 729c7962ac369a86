package register_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storetest"
)

// What a process knows of a line may be old. Who clears away must not go by that.
func TestWhoeverSweepsLooksAtTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewMemory()
		sweeper, s := open(t, store)
		defer shut(t, sweeper)
		leave(t, join(t, s, "line"))
		time.Sleep(time.Minute)

		other, gone := open(t, store)
		defer shut(t, other)
		join(t, gone, "line")
		gone.Abandon(t.Context())
		time.Sleep(5 * register.DefaultTTL)
		if left, err := sweeper.Line(t.Context(), "line"); err != nil || len(left) > 0 {
			t.Errorf("of a session that ended long ago there is left: %v, %v", left, err)
		}
	})
}
