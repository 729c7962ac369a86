package storecheck

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/servers"
)

// Connecting connects a client whose sessions last that long to a server at an address or a URL.
type Connecting func(ctx context.Context, at string, ttl time.Duration) (*coord.Client, error)

func (connect Connecting) to(t testing.TB, at string, ttl time.Duration) *coord.Client {
	t.Helper()
	return Connected(t, func(ctx context.Context) (*coord.Client, error) { return connect(ctx, at, ttl) })
}

// Newcomer checks that nobody enters beside a holder that is cut off when the server forgets, although the newcomer's sessions
// are short and it knows nothing of the holder's.
func Newcomer(t *testing.T, server string, connect Connecting, forget func()) {
	t.Helper()
	p := faultproxy.Start(t, server)
	holder, err := mutex.New(connect.to(t, p.Addr(), 10*time.Second), "orders").Lock(Within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	p.Blackhole()
	forget()
	forgot := time.Now()
	if _, err := mutex.New(connect.to(t, server, time.Second), "orders").Lock(Within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if holder.Err() == nil {
		t.Errorf("two hold %v after the server forgot", time.Since(forgot))
	}
}

// renewed waits for the next renewal of a client's session.
func renewed(t *testing.T, c *coord.Client) {
	t.Helper()
	before := c.Health().Until
	for ctx := Within(t, time.Minute); !c.Health().Until.After(before); time.Sleep(10 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("the session is not renewed")
		}
	}
}

// OldDisk checks that nobody enters beside a holder that is cut off when the server goes on with an older disk. That knows nothing of the
// holder, but it knows the session of somebody who has seen more.
func OldDisk(t *testing.T, m *servers.Member, connect Connecting) {
	t.Helper()
	const ttl = 10 * time.Second // a server that is stopped and started by a busy machine is back before that
	p := faultproxy.Start(t, m.Addr())
	proxied, err := url.Parse(m.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxied.Host = p.Addr()
	cutOff, other := connect.to(t, proxied.String(), ttl), connect.to(t, m.URL(), ttl)
	ctx := Within(t, 3*time.Minute)
	session, err := mutex.New(other, "something else").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m.KeepDisk(t)
	for range 2 { // the first may have been on its way before
		renewed(t, other)
	}
	if err := session.Err(); err != nil {
		t.Fatalf("%v, so this shows nothing", err)
	}
	holder, err := mutex.New(cutOff, "orders").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	p.Blackhole()
	m.PutBackDisk(t)
	for {
		_, err := mutex.New(other, "orders").TryLock(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("nobody is ever let in:", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if holder.Err() == nil {
		t.Error("two hold")
	}
	if session.Err() == nil {
		t.Error("a session goes on that the server knew in an earlier state")
	}
}
