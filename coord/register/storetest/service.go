package storetest

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
)

// patience is how long the harness waits for what must happen, however busy the machine is. It tests nothing by that.
const patience = 2 * time.Minute

// Service gives a store all of drivertest, through register's driver. Each driver has a store with a Link of its own.
//
//	drivertest.Run(t, func(t testing.TB) *drivertest.Service { return storetest.Service(t, system(t)) })
//
// The system must be the suite's alone.
func Service(t testing.TB, sys *System) *drivertest.Service {
	ttl := cmp.Or(sys.TTL, time.Second)
	opts := []register.Option{register.WithTTL(ttl), register.WithLongestTTL(ttl), register.WithLogger(drivertest.Logger(t))}
	clean := sys.Open(t)
	admin := register.New(sys.Open(t), opts...)
	t.Cleanup(func() { closeDriver(admin) })
	// Somebody must be there to clear away what the last client of a scenario leaves behind.
	janitor := newWatchedDriver(NewLink(sys.Open(t)), opts)
	t.Cleanup(func() { closeDriver(janitor) })
	var sweeping driver.Session
	insist(t, "Open", func(ctx context.Context) (err error) {
		sweeping, err = janitor.Open(ctx)
		return err
	})
	svc := &drivertest.Service{
		TTL:     ttl,
		Connect: func(t testing.TB) *drivertest.Link { return connect(t, sys, admin, opts) },
		Stored:  func(t testing.TB, line string) []string { return stored(t, admin, line) },
		Remains: func(t testing.TB) []string { return remains(t, clean, admin, sessionPrefix+janitor.id(sweeping)) },
		Forget:  func(t testing.TB, line string) { forget(t, clean, admin, line) },

		Restart:  sys.Restart,
		Failover: sys.Failover,
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
	d := newWatchedDriver(far, opts)
	t.Cleanup(func() {
		closeDriver(d)
		far.letGo()
	})
	l := far.Link(d)
	l.Kill = far.Kill
	l.Expire = func(t testing.TB, s driver.Session) {
		insist(t, "EndSession", func(ctx context.Context) error { return admin.EndSession(ctx, d.id(s)) })
	}
	return l
}

// insist tries again as long as that may help: on a busy machine a request may take too long.
func insist(t testing.TB, what string, try func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := try(ctx)
	for err != nil && !driver.IsLasting(err) && driverkit.Sleep(ctx, 100*time.Millisecond) == nil {
		err = try(ctx)
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// watchedDriver knows the ids of the sessions that it has opened.
type watchedDriver struct {
	*register.Driver
	mu  sync.Mutex
	ids map[driver.Session]string
}

func newWatchedDriver(l *Link, opts []register.Option) *watchedDriver {
	return &watchedDriver{Driver: register.New(l.Store, opts...), ids: make(map[driver.Session]string)}
}

func closeDriver(d driver.Driver) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = d.Close(ctx)
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

// stored lists the nodes of a line.
func stored(t testing.TB, admin *register.Driver, line string) (ids []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	nodes, err := admin.Line(ctx, line)
	if err != nil {
		t.Fatalf("Line: %v", err)
	}
	for _, n := range nodes {
		ids = append(ids, n.ID)
	}
	return ids
}

// remains lists all registers but those that the driver keeps for itself, and the lines that are empty.
func remains(t testing.TB, clean register.Store, admin *register.Driver, session string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	all, err := admin.Lines(ctx, "")
	if err != nil {
		t.Fatalf("Lines: %v", err)
	}
	err = clean.List(ctx, "", func(it register.Item) bool {
		switch it.Key {
		case "epoch", "sweeper", "memory", "settings", session:
		default:
			if !strings.HasPrefix(it.Key, linePrefix) {
				all = append(all, it.Key)
			}
		}
		return true
	})
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	return all
}

// forget deletes the register of an empty line, as a sweeper does with one that has been empty for long: first it sees to
// it that the epoch has passed.
func forget(t testing.TB, clean register.Store, admin *register.Driver, line string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	swap := func(key string, next func(it register.Item) register.Swap) {
		for {
			it, err := clean.Read(ctx, key)
			if err == nil {
				sw := next(it)
				sw.Key, sw.Old = key, it.Version
				_, err = clean.Swap(ctx, sw)
			}
			if err == nil {
				return
			}
			if !errors.Is(err, register.ErrConflict) {
				t.Fatalf("%q: %v", key, err)
			}
		}
	}
	if it, err := clean.Read(ctx, linePrefix+line); err != nil || len(it.Value) == 0 {
		t.Fatalf("there is nothing to forget: %v, %v", brief(it), err)
	}
	swap("epoch", func(it register.Item) register.Swap {
		format, epoch := byte(1), uint64(1)
		if len(it.Value) > 0 {
			format = it.Value[0]
			epoch, _ = binary.Uvarint(it.Value[1:])
		}
		return register.Swap{Next: register.NewVersion(), Value: binary.AppendUvarint([]byte{format}, epoch+1)}
	})
	swap(linePrefix+line, func(it register.Item) register.Swap {
		if ids := stored(t, admin, line); len(ids) > 0 {
			t.Fatalf("the line to forget has nodes: %q", ids)
		}
		return register.Swap{}
	})
}
