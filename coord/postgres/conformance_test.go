package postgres

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storetest"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestStore(t *testing.T) {
	m := durable(t, servers.Config("max_connections = 300"))
	table := freshTable()
	opened(t, m.URL(), WithTable(table)).Close() // so that what is put back has the table
	m.KeepDisk(t)
	tell := loud(t, m.URL(), table)
	times := []string{"infinity", "-infinity", "294276-01-01", "4713-01-01 BC"}
	var spoilt atomic.Int64
	storetest.Run(t, func(t testing.TB) *storetest.System {
		return &storetest.System{
			Open: func(t testing.TB) register.Store { return opened(t, m.URL(), WithTable(table)) },
			Ages: true, Clock: true,
			Tell: func(_ testing.TB, topic string, note []byte) error { return tell(topic, note) },
			Spoil: func(t testing.TB, key string) {
				since := times[spoilt.Add(1)%int64(len(times))]
				if _, err := dialed(t, m.URL()).Exec(within(t, time.Minute), `UPDATE `+table+` SET value = 'x', version = 1, since = $2 WHERE key = $1`,
					[]byte(key), since); err != nil {
					t.Fatal(err)
				}
			},
			Restart: func(t testing.TB) { m.Restart(t) },
			Forget:  func(t testing.TB) { m.PutBackDisk(t) },
			Freeze:  func(testing.TB) (thaw func()) { m.Freeze(); return m.Thaw },
		}
	})
}
