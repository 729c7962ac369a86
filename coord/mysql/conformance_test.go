package mysql

import (
	"os"
	"os/exec"
	"path/filepath"
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
	keepCopy(t, m)
	storetest.Run(t, func(t testing.TB) *storetest.System {
		return &storetest.System{
			Open: func(t testing.TB) register.Store { return opened(t, m.URL(), WithTable(table)) },
			Mute: true,
			Ages: true, Clock: true,
			Limit:   int(largest(4 << 20)),
			Restart: func(t testing.TB) { m.Restart(t) },
			Forget:  func(t testing.TB) { putBack(t, m) },
			Freeze:  func(testing.TB) (thaw func()) { m.Freeze(); return m.Thaw },
		}
	})
}

// putBack puts the server's disk back to its earlier state, without what was written since, as a snapshot of a virtual
// machine does.
func putBack(t testing.TB, m *servers.Member) {
	t.Helper()
	data := filepath.Join(m.Dir(), "data")
	m.Kill()
	old := filepath.Join(m.Dir(), "old")
	if _, err := os.Stat(old); err != nil {
		t.Fatal("there is nothing to put back: ", err)
	}
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	copyFolder(t, old, data)
	m.Restart(t)
}

// keepCopy copies the disk of a server, which it stops for a moment, to be put back later.
func keepCopy(t testing.TB, m *servers.Member) {
	t.Helper()
	m.Terminate()
	copyFolder(t, filepath.Join(m.Dir(), "data"), filepath.Join(m.Dir(), "old"))
	m.Restart(t)
}

func copyFolder(t testing.TB, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func system(t testing.TB) *storetest.System {
	m, table := sharedServer(t), freshTable()
	return &storetest.System{
		TTL:  2 * time.Second,
		Open: func(t testing.TB) register.Store { return opened(t, m.URL(), WithTable(table)) },
		Mute: true,
		Ages: true, Clock: true,
	}
}

func service(t testing.TB) *drivertest.Service { return storetest.Service(t, system(t)) }

func TestConformance(t *testing.T) { drivertest.Run(t, service) }
func TestRecipes(t *testing.T)     { drivertest.RunRecipes(t, service) }
