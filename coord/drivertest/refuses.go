package drivertest

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
)

// RefusesBeforeItDials checks that a driver's Connect refuses a client that requires more than the service promises, and
// that nobody hears of it: no connection is made to the address, and nothing is created at the service. connect calls the
// driver's Connect with the address and the option.
func RefusesBeforeItDials(t *testing.T, connect func(ctx context.Context, address string, o coord.Option) (*coord.Client, error)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dialled := make(chan struct{})
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
			close(dialled)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := connect(ctx, l.Addr().String(), coord.Require(driver.Strength{Tokens: driver.RiseForEver + 1}))
	if err == nil {
		c.Close()
	}
	if !errors.Is(err, coord.ErrTooWeak) {
		t.Errorf("the client requires what nobody promises, and Connect returns %v", err)
	}
	time.Sleep(50 * time.Millisecond)
	l.Close()
	select {
	case <-dialled:
		t.Error("it has dialled")
	default:
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if c, err := connect(short, l.Addr().String(), coord.Require(driver.Strength{Order: driver.FirstCome})); err == nil {
		c.Close()
	} else if errors.Is(err, coord.ErrTooWeak) {
		t.Errorf("turns come in order, and Connect does not know it: %v", err)
	}
}
