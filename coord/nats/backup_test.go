package nats

import (
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestNobodyEntersWhenABackupIsPutBack(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t, servers.Fsync()).Member(0)
	connect := func(t testing.TB, address string, ttl time.Duration) *coord.Client {
		c, err := Connect(within(t, 20*time.Second), "nats://"+address, WithTTL(ttl), WithLongestTTL(ttl), WithMonitor(monitor(m)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	storecheck.OldDisk(t, m.Addr(), connect, func() { m.KeepDisk(t) }, func() { m.PutBackDisk(t) })
}
