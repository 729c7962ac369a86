package memory

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Driver is the near side: one process's access to a Service.
type Driver struct {
	service *Service
	name    string
	timeout time.Duration

	mu       sync.Mutex
	closed   bool
	sessions map[*session]struct{}
}

// NewDriver returns a driver under a name that the Network will see.
func (s *Service) NewDriver(name string) *Driver {
	return &Driver{service: s, name: name, timeout: min(s.cfg.TTL/4, time.Second), sessions: make(map[*session]struct{})}
}

// Strength says that the service and all it knows end with the process, as do those who use it.
func (d *Driver) Strength() driver.Strength {
	return driver.Strength{Order: driver.FirstCome, Death: driver.ByTTL, Failover: driver.NoFailover, WakeUp: driver.Told}
}

func (d *Driver) RequestTimeout() time.Duration { return d.timeout }

func (d *Driver) Open(ctx context.Context) (driver.Session, error) {
	s := newSession(d)
	var id int64
	sent := time.Now()
	if err := d.do(ctx, Request{Op: "open", Upkeep: true}, func() { id = d.service.open(d.name, s.hear) }); err != nil {
		s.life.End(errClosed)
		return nil, cmp.Or(ctx.Err(), err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		s.life.End(errClosed)
		return nil, fmt.Errorf("%w: the driver is closed", driver.ErrDenied)
	}
	s.id = id
	s.renewed(sent)
	d.sessions[s] = struct{}{}
	s.life.Go(s.renew)
	return s, nil
}

func (d *Driver) Close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	var open []*session
	for s := range d.sessions {
		open = append(open, s)
	}
	d.mu.Unlock()
	for _, s := range open {
		_ = s.Close(ctx)
	}
	for _, s := range open {
		if err := s.life.Rest(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *Driver) forget(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sessions, s)
}
