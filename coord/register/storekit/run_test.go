package storekit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/turnwise/turnwise/coord/register/storekit"
)

// The clock of a machine that was started may be behind, and that of ours may say that the server was there before this process.
func TestARunIsAnotherOneWheneverItSeemsToHaveBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slack = 3 * time.Second
		var r storekit.Run
		assert.Zero(t, r.Since())
		r.Began(time.Hour, slack)
		first := time.Now()
		time.Sleep(time.Second)
		r.Began(time.Hour+2*time.Second, slack)
		r.Began(time.Hour-2*time.Second, slack)
		assert.Equal(t, first, r.Since(), "the same one")
		for _, began := range []time.Duration{time.Minute, 2 * time.Hour, -time.Hour, -2 * time.Hour, 0} {
			time.Sleep(time.Second)
			r.Began(began, slack)
			assert.Equal(t, time.Now(), r.Since())
		}
	})
}

func TestARunIsAnotherOneIfItHasAnotherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r storekit.Run
		for _, name := range []string{"", "one", "two", "one"} {
			r.IsNamed(name)
			met := time.Now()
			time.Sleep(time.Second)
			r.IsNamed(name)
			assert.Equal(t, met, r.Since())
		}
	})
}
