package quorum

import (
	"testing"
	"testing/synctest"
	"time"
)

// Many requests may find at once that a server does not vote.
func TestAServerThatDoesNotVoteIsLookedAtOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := new(acceptor)
		over, ok := a.beginLook()
		if !ok {
			t.Fatal("the first look was put off")
		}
		asked := false
		go func() {
			if a.votes(t.Context()) {
				t.Error("it votes without a seat")
			}
			asked = true
		}()
		synctest.Wait()
		if asked {
			t.Error("a vote did not wait for the look")
		}
		over()
		synctest.Wait()
		if !asked {
			t.Error("a vote waits for a look that is over")
		}
		time.Sleep(999 * time.Millisecond)
		if _, ok := a.beginLook(); ok {
			t.Error("it was looked at twice within a second")
		}
		time.Sleep(time.Millisecond)
		if _, ok := a.beginLook(); !ok {
			t.Error("it was not looked at again after a second")
		}
	})
}
