package mysql

import (
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storetest"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestStore(t *testing.T) {
	m := durable(t, servers.Config("max_connections=500", "max_allowed_packet=4M"))
	table := freshTable()
	opened(t, m.URL(), WithTable(table)).Close() // so that what is put back has the table
	m.KeepDisk(t)
	storetest.Run(t, func(t testing.TB) *storetest.System {
		return &storetest.System{
			Open: func(t testing.TB) register.Store { return opened(t, m.URL(), WithTable(table)) },
			Mute: true,
			Ages: true, Clock: true,
			Limit:   int(largest(4 << 20)),
			Restart: func(t testing.TB) { m.Restart(t) },
			Forget:  func(t testing.TB) { m.PutBackDisk(t) },
			Freeze:  func(testing.TB) (thaw func()) { m.Freeze(); return m.Thaw },
		}
	})
}

func system(t testing.TB) *storetest.System {
	m, table := sharedServer(t), freshTable()
	return &storetest.System{
		TTL:  3 * time.Second,
		Open: func(t testing.TB) register.Store { return opened(t, m.URL(), WithTable(table)) },
		Mute: true,
		Ages: true, Clock: true,
	}
}

func service(t testing.TB) *drivertest.Service { return storetest.Service(t, system(t)) }

func TestConformance(t *testing.T) { drivertest.Run(t, service) }
func TestRecipes(t *testing.T)     { drivertest.RunRecipes(t, service) }
