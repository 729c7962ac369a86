package postgres

import (
	"net/url"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestNobodyEntersWhenABackupIsPutBack(t *testing.T) {
	t.Parallel()
	m := durable(t)
	at, err := url.Parse(m.URL())
	if err != nil {
		t.Fatal(err)
	}
	connect := func(t testing.TB, address string, ttl time.Duration) *coord.Client {
		u := *at
		u.Host = address
		c, err := Connect(within(t, 20*time.Second), u.String(), WithTTL(ttl), WithLongestTTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	storecheck.OldDisk(t, m.Addr(), connect, func() { m.KeepDisk(t) }, func() { m.PutBackDisk(t) })
}
