package storecheck

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/servers"
)

// SlowToConnect checks that a connection that takes longer to be made than any request waits is made all the same. If it were given up with
// the request, a server that is busy would be asked for one connection after the other, which keeps it busy, and answer nobody. delay is
// that of the link in each direction: a request can go there and back in time.
func SlowToConnect(t *testing.T, m *servers.Member, delay time.Duration, open func(ctx context.Context, url string) (register.Store, error)) {
	t.Helper()
	const patience = 500 * time.Millisecond // a session of two seconds has as much for a request
	p := faultproxy.Start(t, m.Addr())
	store, err := open(Within(t, time.Minute), strings.Replace(m.URL(), m.Addr(), p.Addr(), 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	read := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := store.Read(ctx, "line/orders")
		return err
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	p.Delay(delay)
	p.Cut()
	began := time.Now()
	tries := 1
	for err = read(); err != nil && time.Since(began) < 30*time.Second; err = read() {
		tries++
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		t.Errorf("nobody is answered for %v, after %d tries: %v", time.Since(began), tries, err)
	}
	if n := p.Accepted(); n > 20 {
		t.Errorf("%d connections were made", n)
	}
}
