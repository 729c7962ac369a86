package docs

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/mem"
)

// What follows is shown in writing-a-driver.md.

// leases is a service with leases, as its own library offers it. errGone says that a lease has ended.
type leases interface {
	Grant(ctx context.Context) (lease string, ttl time.Duration, err error)
	Renew(ctx context.Context, lease string) (ttl time.Duration, err error)
	Revoke(ctx context.Context, lease string) error
	Put(ctx context.Context, lease, name string) error // makes a node at the end of its line, or finds that it has done so
	Delete(ctx context.Context, name string) error     // nil also if it was gone
}

var errGone = errors.New("no such lease")

// session is the part of a driver.Session that keeps it alive.
type session struct {
	service leases
	lease   string
	ttl     time.Duration
	life    *driverkit.Life
	until   *driverkit.Deadline
}

func openSession(ctx context.Context, service leases) (*session, error) {
	sent := time.Now() // before the request: the lease may run from then on
	lease, ttl, err := service.Grant(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{service, lease, ttl, driverkit.NewLife(context.Background()), driverkit.NewDeadline()}
	s.renewed(sent)
	s.life.Go(s.keep)
	return s, nil
}

// renewed leaves a twentieth for clocks that run at different rates.
func (s *session) renewed(sent time.Time) { s.until.Renewed(sent, s.ttl-s.ttl/20) }

func (s *session) keep() {
	for driverkit.Sleep(s.life.Context(), s.ttl/4) == nil {
		ctx, cancel := context.WithTimeout(s.life.Context(), s.ttl/4)
		sent := time.Now()
		ttl, err := s.service.Renew(ctx, s.lease)
		cancel()
		switch {
		case errors.Is(err, errGone):
			s.life.End(err)
		case err == nil && ttl < s.ttl:
			s.life.End(errors.New("the service grants less than before"))
		case err == nil:
			s.renewed(sent)
		} // after any other error the deadline stays where it is
	}
}

func (s *session) Deadline() time.Time   { return s.until.Time() }
func (s *session) Done() <-chan struct{} { return s.life.Done() }
func (s *session) Why() error            { return s.life.Why() }

func (s *session) Close(ctx context.Context) error {
	err := s.service.Revoke(ctx, s.lease)
	s.life.End(errors.New("closed"))
	return errors.Join(err, s.life.Rest(ctx))
}

func (s *session) Abandon(ctx context.Context) {
	s.life.AwaitErrands(ctx) // what is being taken away goes; what is held stays until the TTL is over
	s.life.End(errors.New("abandoned"))
	_ = s.life.Rest(ctx)
}

func (s *session) join(ctx context.Context, line string) (string, error) {
	name := line + "/" + rand.Text() // our choice, so a second try finds what the first has made
	return driverkit.Deliver(ctx, s.life, func(wanted func() bool) (string, error) {
		for tries := 0; ; tries++ {
			ctx, cancel := context.WithTimeout(s.life.Context(), s.ttl/4)
			err := s.service.Put(ctx, s.lease, name)
			cancel()
			switch {
			case err == nil:
				return name, nil // if nobody wants it any more, it is taken back
			case s.life.Over():
				return "", s.life.Why()
			}
			_ = driverkit.Sleep(s.life.Context(), driverkit.Jitter(driverkit.Pause(tries)))
		}
	}, func(name string) { _ = s.leave(s.life.Context(), name) })
}

func (s *session) leave(ctx context.Context, name string) error {
	try := func(ctx context.Context) error { return s.service.Delete(ctx, name) }
	mends := func(err error) bool { return !driver.IsLasting(err) }
	return driverkit.UntilGone(ctx, s.life, try, mends)
}

func harness(t testing.TB) *drivertest.Service {
	const ttl = time.Second
	service := mem.New(mem.WithTTL(ttl))
	t.Cleanup(service.Close)
	admin := service.Client().Driver()
	return &drivertest.Service{
		TTL: ttl,
		Connect: func(testing.TB) *drivertest.Link {
			return &drivertest.Link{Driver: service.Client().Driver()}
		},
		Stored: func(t testing.TB, line string) (all []string) {
			nodes, err := admin.Line(context.Background(), line)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range nodes {
				all = append(all, n.ID)
			}
			return all
		},
	}
}

func TestConformance(t *testing.T) { drivertest.Run(t, harness) }

// leased is a service with one lease, whose answers take time or get lost.
type leased struct {
	mu     sync.Mutex
	ends   time.Time
	nodes  map[string]bool
	takes  time.Duration // each request, half of it on its way there
	losing int           // so many answers
}

const leaseTTL = 10 * time.Second

var errLost = errors.New("no answer")

// do applies a request in the middle of the time that it takes.
func (l *leased) do(ctx context.Context, apply func() error) (err error) {
	time.Sleep(l.takes / 2)
	l.mu.Lock()
	err = errGone
	if time.Now().Before(l.ends) {
		err = apply()
	}
	if l.losing > 0 {
		l.losing, err = l.losing-1, errLost
	}
	l.mu.Unlock()
	return errors.Join(err, driverkit.Sleep(ctx, l.takes/2))
}

func (l *leased) Grant(context.Context) (string, time.Duration, error) {
	time.Sleep(l.takes / 2)
	l.ends = time.Now().Add(leaseTTL)
	time.Sleep(l.takes / 2)
	return "7", leaseTTL, nil
}

func (l *leased) Renew(ctx context.Context, _ string) (time.Duration, error) {
	return leaseTTL, l.do(ctx, func() error { l.ends = time.Now().Add(leaseTTL); return nil })
}

func (l *leased) Revoke(ctx context.Context, _ string) error {
	return l.do(ctx, func() error { l.ends = time.Now(); return nil })
}

func (l *leased) Put(ctx context.Context, _, name string) error {
	return l.do(ctx, func() error { l.nodes[name] = true; return nil })
}

func (l *leased) Delete(ctx context.Context, name string) error {
	return l.do(ctx, func() error { delete(l.nodes, name); return nil })
}

func (l *leased) stand() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.nodes)
}

func TestTheSessionInThePageKeepsTheContract(t *testing.T) {
	begin := func(t *testing.T) (*leased, *session) {
		service := &leased{nodes: make(map[string]bool), takes: time.Second}
		s, err := openSession(t.Context(), service)
		if err != nil {
			t.Fatal(err)
		}
		return service, s
	}
	for name, play := range map[string]func(t *testing.T, service *leased, s *session){
		"the deadline is never late": func(t *testing.T, service *leased, s *session) {
			for range 100 {
				service.mu.Lock()
				if late := s.Deadline().Sub(service.ends); late > -leaseTTL/20 {
					t.Errorf("the deadline is %v after the end of the lease", late)
				}
				service.mu.Unlock()
				time.Sleep(600 * time.Millisecond)
			}
			if s.until.Passed() {
				t.Error("it is not renewed")
			}
		},
		"a join whose answer is lost is done once": func(t *testing.T, service *leased, s *session) {
			service.losing = 2
			if _, err := s.join(t.Context(), "orders"); err != nil || service.stand() != 1 {
				t.Errorf("%d nodes stand: %v", service.stand(), err)
			}
		},
		"a join that is given up leaves nothing": func(t *testing.T, service *leased, s *session) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := s.join(ctx, "orders"); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			s.life.AwaitErrands(t.Context())
			if n := service.stand(); n > 0 {
				t.Errorf("%d nodes stand", n)
			}
		},
		"a leave goes on": func(t *testing.T, service *leased, s *session) {
			name, err := s.join(t.Context(), "orders")
			if err != nil {
				t.Fatal(err)
			}
			service.losing = 1
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := s.leave(ctx, name); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			s.life.AwaitErrands(t.Context())
			if n := service.stand(); n > 0 {
				t.Errorf("%d nodes stand", n)
			}
		},
		"a lease that has ended ends the session": func(t *testing.T, service *leased, s *session) {
			service.mu.Lock()
			service.ends = time.Now()
			service.mu.Unlock()
			<-s.Done()
			if err := s.Why(); !errors.Is(err, driver.ErrSessionEnded) || !errors.Is(err, errGone) {
				t.Error(err)
			}
		},
		"an abandoned one leaves what is held": func(t *testing.T, service *leased, s *session) {
			if _, err := s.join(t.Context(), "orders"); err != nil {
				t.Fatal(err)
			}
			s.Abandon(t.Context())
			if n := service.stand(); n != 1 {
				t.Errorf("%d nodes stand", n)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service, s := begin(t)
				play(t, service, s)
				_ = s.Close(t.Context())
			})
		})
	}
}
