package memory_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/internal/memory"
)

// pipes is a Network with a pipe to each driver, each with faults of its own.
type pipes struct {
	profile memory.Profile
	mu      sync.Mutex
	links   map[string]*link
}

func (p *pipes) link(name string) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.links[name]
	if l == nil {
		l = &link{profile: p.profile}
		l.out.done, l.in.done = make(chan struct{}), make(chan struct{})
		p.links[name] = l
		go l.out.run()
		go l.in.run()
	}
	return l
}

func (p *pipes) Do(ctx context.Context, r memory.Request, apply func()) error {
	return p.link(r.Link).do(ctx, r, apply)
}

func (p *pipes) Tell(e memory.Event, deliver func()) { p.link(e.Link).tell(deliver) }

// link is what lies between one driver and the service.
type link struct {
	profile memory.Profile
	out, in pipe

	mu      sync.Mutex
	cuts    int // that last
	made    int // ever
	fates   []fate
	traffic drivertest.Traffic
}

type fate struct {
	drivertest.Fate
	met chan struct{}
}

var errCut = errors.New("connection reset")

func (l *link) do(ctx context.Context, r memory.Request, apply func()) error {
	l.mu.Lock()
	if !r.Upkeep {
		if r.Changes {
			l.traffic.Writes++
		} else {
			l.traffic.Reads++
		}
	}
	if l.cuts > 0 {
		l.mu.Unlock()
		return errCut
	}
	var f fate
	if r.Changes && len(l.fates) > 0 {
		f, l.fates = l.fates[0], l.fates[1:]
	}
	made := l.made
	l.mu.Unlock()

	answered := make(chan error, 1)
	lose := func() { answered <- errCut }
	l.out.push(func() {
		switch {
		case f.Fate == drivertest.LostBefore:
			close(f.met)
			lose()
		case f.Fate == drivertest.AppliedLate && l.profile == memory.Etcd:
			close(f.met)
			time.AfterFunc(drivertest.Late, apply)
			lose()
		case f.Fate != 0:
			apply()
			close(f.met)
			lose()
		default:
			apply()
			l.answer(made, func() { answered <- nil }, lose)
		}
	}, lose)
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answer sends an answer, unless the connection has been cut since the request was sent.
func (l *link) answer(made int, arrive, lose func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made != made {
		lose()
		return
	}
	l.in.push(arrive, lose)
}

func (l *link) tell(deliver func()) {
	l.in.push(func() {
		l.mu.Lock()
		l.traffic.Events++
		l.mu.Unlock()
		deliver()
	}, func() {})
}

// pipe carries one way, in order.
type pipe struct {
	mu     sync.Mutex
	queue  []parcel
	frozen int
	delay  time.Duration
	wake   chan struct{} // closed at the next change
	done   chan struct{}
}

type parcel struct {
	arrive, lose func()
	due          time.Time
}

func (p *pipe) push(arrive, lose func()) {
	p.change(func() { p.queue = append(p.queue, parcel{arrive, lose, time.Now().Add(p.delay)}) })
}

func (p *pipe) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	if p.wake != nil {
		close(p.wake)
		p.wake = nil
	}
}

func (p *pipe) run() {
	for {
		p.mu.Lock()
		var ready *parcel
		wait := time.Hour
		if len(p.queue) > 0 && p.frozen == 0 {
			if wait = time.Until(p.queue[0].due); wait <= 0 {
				ready = &parcel{p.queue[0].arrive, p.queue[0].lose, time.Time{}}
				p.queue = p.queue[1:]
			}
		}
		if p.wake == nil {
			p.wake = make(chan struct{})
		}
		wake := p.wake
		p.mu.Unlock()
		if ready != nil {
			ready.arrive()
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-wake:
		case <-timer.C:
		case <-p.done:
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

func (p *pipe) flush() {
	var lost []parcel
	p.change(func() { lost, p.queue = p.queue, nil })
	for _, parcel := range lost {
		parcel.lose()
	}
}

func (l *link) freeze(d drivertest.Direction) (thaw func()) {
	add := func(n int) {
		if d&drivertest.Requests != 0 {
			l.out.change(func() { l.out.frozen += n })
		}
		if d&drivertest.Replies != 0 {
			l.in.change(func() { l.in.frozen += n })
		}
	}
	add(1)
	return sync.OnceFunc(func() { add(-1) })
}

func (l *link) cut(service *memory.Service, name string) (heal func()) {
	add := func(n int) int {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.made += max(n, 0)
		l.cuts += n
		return l.cuts
	}
	add(1)
	l.out.flush()
	l.in.flush()
	return sync.OnceFunc(func() {
		if add(-1) == 0 {
			l.in.flush() // what was told in the meantime
			service.Reconnect(name)
		}
	})
}

func (l *link) slow(by time.Duration) {
	l.out.change(func() { l.out.delay += by })
	l.in.change(func() { l.in.delay += by })
}

func (l *link) fate(f drivertest.Fate) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	met := make(chan struct{})
	l.fates = append(l.fates, fate{f, met})
	return met
}

func (l *link) count() drivertest.Traffic {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.traffic
}

// close ends the pipe; what is still in it is lost.
func (l *link) close() {
	close(l.out.done)
	close(l.in.done)
}

// connect makes a driver with a link of its own.
func (p *pipes) connect(t testing.TB, service *memory.Service, name string) *drivertest.Link {
	d, l := service.NewDriver(name), p.link(name)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		d.Close(ctx)
		l.close()
	})
	return &drivertest.Link{
		Driver: d,
		Fate:   l.fate,
		Freeze: l.freeze,
		Cut:    func() func() { return l.cut(service, name) },
		Delay: func(each time.Duration) func() {
			l.slow(each)
			return sync.OnceFunc(func() { l.slow(-each) })
		},
		Expire:  func(_ testing.TB, sess driver.Session) { service.Expire(sess) },
		Traffic: l.count,
	}
}
