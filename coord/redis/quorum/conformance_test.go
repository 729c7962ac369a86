package quorum

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storetest"
	"github.com/turnwise/turnwise/docs"
	"github.com/turnwise/turnwise/verify/servers"
)

// system is three Redis. As a whole they forget when all are emptied and somebody founds the group again.
func system(t testing.TB) *storetest.System {
	cluster := servers.Redis(t, servers.Members(3), servers.AppendOnly("always"))
	open := func(t testing.TB) register.Store {
		q, err := Open(redistest.Within(t, time.Minute), cluster.Addrs())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { q.Close() })
		return q
	}
	var publish []func(topic string, note []byte) error
	for _, a := range cluster.Addrs() {
		publish = append(publish, redistest.Loud(t, a))
	}
	var told atomic.Uint64
	return &storetest.System{
		TTL: 2 * time.Second,
		Tell: func(_ testing.TB, topic string, note []byte) (err error) {
			note = append(binary.BigEndian.AppendUint64(bytes.Repeat([]byte{1}, tagSize-8), told.Add(1)), note...)
			for i, tell := range publish {
				err = errors.Join(err, tell(topic, append(bytes.Repeat([]byte{byte(i)}, server.IDSize), note...)))
			}
			return err
		},
		Open:  open,
		Ages:  true,
		Limit: server.MaxValue,
		Restart: func(t testing.TB) {
			for _, m := range cluster.Members() {
				m.Restart(t)
			}
		},
		Forget: func(t testing.TB) {
			for _, m := range cluster.Members() {
				redistest.CLI(t, m.Addr(), "FLUSHALL")
			}
			open(t)
		},
		Spoil: func(t testing.TB, key string) {
			for _, m := range cluster.Members() {
				redistest.CLI(t, m.Addr(), "SET", defaultRoot+key, strings.Repeat("1", 300))
			}
		},
		Freeze: func(t testing.TB) func() {
			for _, m := range cluster.Members() {
				m.Freeze()
			}
			return func() {
				for _, m := range cluster.Members() {
					m.Thaw()
				}
			}
		},
	}
}

func TestStore(t *testing.T) { storetest.Run(t, system) }

func TestDriver(t *testing.T) {
	drivertest.Run(t, func(t testing.TB) *drivertest.Service { return storetest.Service(t, system(t)) })
}

func TestRecipes(t *testing.T) {
	drivertest.RunRecipes(t, func(t testing.TB) *drivertest.Service { return redistest.Patient(t, system(t)) })
}

func TestTheTableOfEnginesHasOurRow(t *testing.T) {
	if row := docs.MissingInEngines("coord/redis/quorum", strength); row != "" {
		t.Errorf("docs/engines.md lacks\n%s", row)
	}
}
