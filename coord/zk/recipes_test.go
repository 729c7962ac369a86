package zk

import (
	"testing"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestRecipes(t *testing.T) {
	drivertest.RunRecipes(t, func(t testing.TB) *drivertest.Service {
		return newHarness(t, servers.ZooKeeper(t, servers.Shared())).service()
	})
}
