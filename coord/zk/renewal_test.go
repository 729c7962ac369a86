package zk

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

// Just after a connection was made nearly the whole timeout is sure, and it would be a third less soon after, although
// everything goes well.
func TestASessionIsNotSureForLongerThanItGoesOnToBe(t *testing.T) {
	const timeout = 10 * time.Second
	r := newRenewal()
	sent := r.began
	left := func() time.Duration { return r.deadline.Time().Sub(sent) }
	r.connected(nil, sent, timeout, true)
	require.Equal(t, timeout*sureAtMost/100, left())

	for range 5 {
		sent = sent.Add(timeout / 20)
		r.answered(nil, sent, wire.Majority)
		require.Equal(t, timeout*sureAtMost/100, left())
	}
}
