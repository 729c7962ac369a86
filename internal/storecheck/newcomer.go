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
