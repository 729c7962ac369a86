package storecheck

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

// crowd takes n connections of a server, and each again that the server ends, until the test is over. It logs in nowhere.
func crowd(t testing.TB, address string, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	for range n {
		all.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
				c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
				if err != nil {
					continue
				}
				stop := context.AfterFunc(ctx, func() { c.Close() })
				_, _ = io.Copy(io.Discard, c)
				stop()
				c.Close()
			}
		})
	}
}

// RenewedInACrowd checks that sessions are renewed through connections that stores have already, while somebody who need not even log
// in has taken all others, which are no more than n.
func RenewedInACrowd[S register.Store](t testing.TB, address string, n int, open func(context.Context) (S, error)) {
	t.Helper()
	early, late := Opened(t, open), Opened(t, open)
	renew := func(s register.Store, key, says string) {
		t.Helper()
		if err := putIn(register.ForRenewal(Within(t, 20*time.Second)), s, key); err != nil {
			t.Errorf("%s: %v", says, err)
		}
	}
	renew(early, "session/1", "in time")
	crowd(t, address, n)
	Eventually(t, "the server is full", func() bool {
		s, err := open(Within(t, time.Second))
		if err == nil {
			s.Close()
		}
		return err != nil
	})
	renew(late, "session/2", "whose session is renewed for the first time")
	// Who gives up may break the connection that he has, and others with it.
	for range 300 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Microsecond)
		_, _ = early.Read(ctx, "line/orders")
		cancel()
	}
	renew(early, "session/3", "whose callers give up")
}
