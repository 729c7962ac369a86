package postgres

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/faultproxy"
)

// Somebody asks for nothing while the server is away, and only listens.
func TestWhoOnlyListensWhileABackupIsPutBackDoesNotEnter(t *testing.T) {
	t.Parallel()
	const ttl = 20 * time.Second
	m := durable(t)
	connect := func(url string) *coord.Client {
		return storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) {
			return Connect(ctx, url, WithTTL(ttl), WithLongestTTL(ttl), WithLogger(logger(t)))
		})
	}
	through := func(p *faultproxy.Proxy) string {
		u, err := url.Parse(m.URL())
		if err != nil {
			t.Fatal(err)
		}
		u.Host = p.Addr()
		return u.String()
	}
	itsWay, way := faultproxy.Start(t, m.Addr()), faultproxy.Start(t, m.Addr())
	cutOff, other := connect(through(itsWay)), connect(through(way))
	ctx := within(t, 4*time.Minute)
	session, err := mutex.New(other, "something else").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m.KeepDisk(t)
	for range 2 { // the first may have been on its way before
		before := other.Health().Until
		eventually(t, "a renewal", func() bool { return other.Health().Until.After(before) })
	}
	holder, err := mutex.New(cutOff, "orders").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	itsWay.Blackhole()
	way.Refuse()
	m.PutBackDisk(t)
	query(t, m.URL(), `CREATE TABLE others AS SELECT generate_series(1, 100000)`) // so the server's log is as long as it was
	way.Heal()
	time.Sleep(2 * time.Second) // it listens again
	t.Log("the session is sure for", time.Until(session.Deadline()))
	h, err := mutex.New(other, "orders").TryLock(ctx)
	if err == nil && holder.Err() == nil {
		t.Error("two hold: ", h.Token(), holder.Token())
	}
}
