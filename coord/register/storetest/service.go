package storetest

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
)

// Service gives a store all of drivertest, through register's driver. Each driver has a store with a Link of its own.
//
//	drivertest.Run(t, func(t testing.TB) *drivertest.Service { return storetest.Service(t, system(t)) })
//
// The system must be the suite's alone.
func Service(t testing.TB, sys *System) *drivertest.Service {
	const ttl = time.Second
	opts := []register.Option{register.WithTTL(ttl), register.WithLogger(drivertest.Logger(t))}
	clean := sys.Open(t)
	admin := register.New(sys.Open(t), opts...)
	// Somebody must be there to clear away what the last of a scenario left behind.
	janitor := register.New(sys.Open(t), opts...)
	open := &opening{}
	ctx, cancel := context.WithTimeout(open.note(context.Background()), 20*time.Second)
	defer cancel()
	if _, err := janitor.Open(ctx); err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = janitor.Close(ctx)
		_ = admin.Close(ctx)
	})
	svc := &drivertest.Service{
		TTL:     ttl,
		Connect: func(t testing.TB) *drivertest.Link { return connect(t, sys, admin, opts) },
		Stored:  func(t testing.TB, line string) []string { return stored(t, admin, line) },
		Remains: func(t testing.TB) []string { return remains(t, clean, admin, 1) },
		Forget:  func(t testing.TB, line string) { forget(t, clean, admin, line) },
	}
	if !sys.Mute {
		svc.Budget = drivertest.Budget{
			Join:    drivertest.Cost{Writes: 1, Trips: 1},
			Leave:   drivertest.Cost{Writes: 1, Trips: 1},
			Handoff: drivertest.Cost{Events: 1},
		}
	}
	return svc
}

// connect makes a driver with a link.
func connect(t testing.TB, sys *System, admin *register.Driver, opts []register.Option) *drivertest.Link {
	far := NewLink(sys.Open(t))
	d := &watchedDriver{Driver: register.New(far.Store, opts...), ids: make(map[driver.Session]string)}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = d.Close(ctx)
		_ = far.Store.Close()
	})
	l := far.Link(d)
	l.Expire = func(t testing.TB, s driver.Session) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := admin.EndSession(ctx, d.id(s)); err != nil {
			t.Fatalf("EndSession: %v", err)
		}
	}
	return l
}

// watchedDriver knows the ids of the sessions that it has opened.
type watchedDriver struct {
	*register.Driver
	mu  sync.Mutex
	ids map[driver.Session]string
}

func (d *watchedDriver) Open(ctx context.Context) (driver.Session, error) {
	var o opening
	s, err := d.Driver.Open(o.note(ctx))
	if err == nil {
		d.mu.Lock()
		d.ids[s] = o.id
		d.mu.Unlock()
	}
	return s, err
}

func (d *watchedDriver) id(s driver.Session) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ids[s]
}

// opening is told of the session that is opened in its context: a session's register is made there, and nowhere else.
type opening struct{ id string }

type openingKey struct{}

func (o *opening) note(ctx context.Context) context.Context {
	return context.WithValue(ctx, openingKey{}, o)
}

func opened(ctx context.Context, sw register.Swap) {
	if id, ok := strings.CutPrefix(sw.Key, sessionPrefix); ok && sw.Old.IsZero() {
		if o, ok := ctx.Value(openingKey{}).(*opening); ok {
			o.id = id
		}
	}
}
