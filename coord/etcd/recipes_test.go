package etcd

import (
	"testing"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestRecipes(t *testing.T) {
	drivertest.RunRecipes(t, func(t testing.TB) *drivertest.Service {
		return conformance(t, servers.Etcd(t))
	})
}
