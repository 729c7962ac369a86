package storecheck

import (
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/faultproxy"
)

// Newcomer checks that nobody enters beside a holder that is cut off when the server forgets, although the newcomer's sessions
// are short and it knows nothing of the holder's.
func Newcomer(t *testing.T, server string, connect func(t testing.TB, address string, ttl time.Duration) *coord.Client, forget func()) {
	t.Helper()
	p := faultproxy.Start(t, server)
	holder, err := mutex.New(connect(t, p.Addr(), 10*time.Second), "orders").Lock(Within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	p.Blackhole()
	forget()
	forgot := time.Now()
	if _, err := mutex.New(connect(t, server, time.Second), "orders").Lock(Within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if holder.Err() == nil {
		t.Errorf("two hold %v after the server forgot", time.Since(forgot))
	}
}

// OldDisk checks that nobody enters beside a holder that is cut off when the server goes on with an older disk. That knows nothing of the
// holder, but it knows the session of somebody who has seen more.
func OldDisk(t *testing.T, server string, connect func(t testing.TB, address string, ttl time.Duration) *coord.Client, keep, putBack func()) {
	t.Helper()
	const ttl = 4 * time.Second
	p := faultproxy.Start(t, server)
	cutOff, other := connect(t, p.Addr(), ttl), connect(t, server, ttl)
	ctx := Within(t, time.Minute)
	session, err := mutex.New(other, "something else").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	keep()
	time.Sleep(ttl / 2) // it is renewed meanwhile
	if err := session.Err(); err != nil {
		t.Fatalf("%v, so this shows nothing", err)
	}
	holder, err := mutex.New(cutOff, "orders").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	p.Blackhole()
	putBack()
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
