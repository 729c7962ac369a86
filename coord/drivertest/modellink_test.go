package drivertest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

var errModelLost = errors.New("model service: connection lost")

// modelLink carries requests and news between one modelDriver and the service, and does to them what it is told.
type modelLink struct {
	svc *modelService

	mu      sync.Mutex
	conn    *modelConn
	down    int
	frozen  [2]int
	thawed  [2]chan struct{}
	delay   time.Duration
	fates   []modelFate
	traffic Traffic
	news    []modelLetter
	more    chan struct{}
	heard   func(modelNews)
	closed  chan struct{}
	running sync.WaitGroup
}

// modelConn is one connection; broken is closed when it is cut.
type modelConn struct{ broken chan struct{} }

type modelFate struct {
	Fate
	met chan struct{}
}

type modelLetter struct {
	modelNews
	conn *modelConn
}

// modelRequest says how a request counts.
type modelRequest int

const (
	modelRenewal modelRequest = iota
	modelRead
	modelWrite
)

func newModelLink(svc *modelService) *modelLink {
	l := &modelLink{svc: svc, conn: &modelConn{make(chan struct{})}, more: make(chan struct{}, 1), closed: make(chan struct{})}
	l.running.Go(l.deliver)
	return l
}

func (l *modelLink) close() {
	close(l.closed)
	l.running.Wait()
}

// modelCall sends a request and waits for the answer. After an error it is open whether and when the service applies it.
func modelCall[T any](ctx context.Context, l *modelLink, kind modelRequest, size int, apply func() T) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	conn, fate, err := l.send(kind, size)
	if err != nil {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
		}
		return none, err
	}
	answer := make(chan T, 1)
	lost := make(chan struct{})
	l.running.Go(func() {
		if !l.pass(Requests, conn) {
			return
		}
		switch fate.Fate {
		case LostBefore:
			close(fate.met)
			close(lost)
			return
		case AppliedLate:
			close(fate.met)
			close(lost)
			select {
			case <-time.After(Late):
				apply()
			case <-l.closed:
			}
			return
		case LostAfter:
			apply()
			close(fate.met)
			close(lost)
			return
		}
		a := apply()
		if l.pass(Replies, conn) {
			l.mu.Lock()
			l.traffic.Received += int64(64 + size)
			l.mu.Unlock()
			answer <- a
		}
	})
	select {
	case a := <-answer:
		return a, nil
	case <-lost:
		return none, errModelLost
	case <-conn.broken:
		return none, errModelLost
	case <-l.closed:
		return none, errModelLost
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

func (l *modelLink) send(kind modelRequest, size int) (*modelConn, modelFate, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return nil, modelFate{}, errModelLost
	default:
	}
	if l.down > 0 {
		return nil, modelFate{}, errModelLost
	}
	l.traffic.Sent += int64(64 + size)
	switch kind {
	case modelRead:
		l.traffic.Reads++
	case modelWrite:
		l.traffic.Writes++
		if len(l.fates) > 0 {
			f := l.fates[0]
			l.fates = l.fates[1:]
			return l.conn, f, nil
		}
	}
	return l.conn, modelFate{}, nil
}

// pass lets a message through one way. It returns false if the connection broke first.
func (l *modelLink) pass(d Direction, conn *modelConn) bool {
	for {
		l.mu.Lock()
		thawed, frozen, delay := l.thawed[d-1], l.frozen[d-1] > 0, l.delay
		l.mu.Unlock()
		if !frozen {
			if delay > 0 {
				time.Sleep(delay)
			}
			select {
			case <-conn.broken:
				return false
			default:
				return true
			}
		}
		select {
		case <-thawed:
		case <-conn.broken:
			return false
		case <-l.closed:
			return false
		}
	}
}

func (l *modelLink) isDown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down > 0
}

// tell queues news; it must not block.
func (l *modelLink) tell(n modelNews) {
	l.mu.Lock()
	l.news = append(l.news, modelLetter{n, l.conn})
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *modelLink) deliver() {
	for {
		select {
		case <-l.more:
		case <-l.closed:
			return
		}
		for {
			l.mu.Lock()
			if len(l.news) == 0 {
				l.mu.Unlock()
				break
			}
			n := l.news[0]
			l.news = l.news[1:]
			l.mu.Unlock()
			if l.svc.flaw == newsLostInCut && l.isDown() || !l.pass(Replies, n.conn) {
				continue
			}
			l.mu.Lock()
			l.traffic.Events++
			l.traffic.Received += 64
			l.mu.Unlock()
			l.heard(n.modelNews)
		}
	}
}

func (l *modelLink) fate(f Fate) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	met := make(chan struct{})
	l.fates = append(l.fates, modelFate{f, met})
	return met
}

func (l *modelLink) freeze(d Direction) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range 2 {
		if d&(1<<i) != 0 {
			if l.frozen[i]++; l.frozen[i] == 1 {
				l.thawed[i] = make(chan struct{})
			}
		}
	}
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := range 2 {
			if d&(1<<i) != 0 {
				if l.frozen[i]--; l.frozen[i] == 0 {
					close(l.thawed[i])
				}
			}
		}
	})
}

func (l *modelLink) cut() func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.conn.broken)
	l.conn = &modelConn{make(chan struct{})}
	l.down++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.down--
	})
}

func (l *modelLink) slow(each time.Duration) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay += each
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.delay -= each
	})
}

func (l *modelLink) count() Traffic {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.traffic
}

// broken is closed when the connection that stands now breaks.
func (l *modelLink) broken() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn.broken
}

// modelHarness is the Service of the suite on the model, the driver with a flaw or without.
func modelHarness(f flaw) func(t testing.TB) *Service {
	return func(t testing.TB) *Service {
		svc := newModelService(time.Second, f)
		t.Cleanup(func() { close(svc.stop) })
		return &Service{
			TTL: svc.ttl,
			Connect: func(t testing.TB) *Link {
				l := newModelLink(svc)
				d := newModelDriver(l, f)
				t.Cleanup(func() {
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					defer cancel()
					_ = d.Close(ctx)
					l.close()
				})
				return &Link{
					Driver: d,
					Fate:   l.fate, Freeze: l.freeze, Cut: l.cut, Delay: l.slow, Traffic: l.count,
					Expire: func(t testing.TB, s driver.Session) { svc.end(s.(*modelLiveness).id) },
				}
			},
			Stored: func(t testing.TB, line string) []string { return svc.stored(line) },
			Remains: func(t testing.TB) []string {
				svc.mu.Lock()
				defer svc.mu.Unlock()
				var all []string
				for line, nodes := range svc.lines {
					for _, n := range nodes {
						all = append(all, line+": "+n.ID)
					}
				}
				return all
			},
			PlantForeign: func(t testing.TB, line string) {
				svc.plant(line)
				t.Cleanup(func() { svc.uproot(line) })
			},
			Forget: func(t testing.TB, line string) {},
			Budget: Budget{
				Join:    Cost{Writes: 1, Trips: 1},
				Leave:   Cost{Writes: 1, Trips: 1},
				Handoff: Cost{Events: 1},
			},
		}
	}
}
