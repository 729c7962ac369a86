package storekit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// The clock of a machine that was started may be behind, and that of ours may say that the server was there before this process.
func TestARunIsAnotherOneWheneverItSeemsToHaveBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slack = 3 * time.Second
		var r storekit.Run
		r.Begin(time.Hour)
		assert.NoError(t, r.Check(time.Hour+2*time.Second, slack), "the same one")
		assert.NoError(t, r.Check(time.Hour-2*time.Second, slack), "the same one")
		for _, began := range []time.Duration{time.Minute, 2 * time.Hour, -time.Hour, -2 * time.Hour, 0} {
			assert.ErrorIs(t, r.Check(began, slack), register.ErrRestarted)
			assert.ErrorIs(t, r.Check(began, slack), register.ErrRestarted, "who asks at the same time is told as well")
			time.Sleep(time.Second)
			assert.NoError(t, r.Check(began, slack))
		}
	})
}
