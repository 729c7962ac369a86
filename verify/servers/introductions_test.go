//go:build unix

package servers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The first member calls first, and those with greater numbers call back.
func TestAMemberIsCalledBackThroughTheProxyThatLeadsToIt(t *testing.T) {
	c := ZooKeeper(t, Members(3), Links())
	first := c.Member(0)
	calls := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.routes["2-1/election"].proxy.Accepted() + c.routes["3-1/election"].proxy.Accepted()
	}
	before := calls()
	first.Restart(t)
	require.Eventually(t, func() bool { return calls() >= before+2 }, 30*time.Second, 10*time.Millisecond)
}
