package storekit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/turnwise/turnwise/coord/register/storekit"
)

func TestARunIsAnotherOneThoughItsMachinesClockWasBehind(t *testing.T) {
	var r storekit.Run
	const slack = 3 * time.Second
	assert.NoError(t, r.Check(time.Hour, slack))
	assert.NoError(t, r.Check(time.Hour+2*time.Second, slack), "the same one")
	assert.NoError(t, r.Check(time.Hour-2*time.Second, slack), "the same one")
	assert.Error(t, r.Check(time.Minute, slack), "the clock was behind")
	assert.NoError(t, r.Check(time.Minute, slack))
	assert.Error(t, r.Check(2*time.Hour, slack))
	assert.NoError(t, r.Check(2*time.Hour, slack))
}

func TestWhatBeganBeforeUsIsOneRun(t *testing.T) {
	var r storekit.Run
	assert.NoError(t, r.Check(-time.Hour, time.Second))
	assert.NoError(t, r.Check(-time.Hour-time.Second, time.Second))
	assert.Error(t, r.Check(time.Minute, time.Second))
}
