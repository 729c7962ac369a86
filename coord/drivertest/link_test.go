package drivertest

import (
	"context"
	"errors"
	"sync"
	"time"
)

var errLinkLost = errors.New("link: connection lost")

// faultLink carries requests to a service in this process, and answers and news back, in order, and with the faults it
// is told to make.
type faultLink struct {
	inOrder   bool   // the service keeps a client's order: what is lost takes the connection with it
	connected func() // called when there is a connection again; may be nil

	mu      sync.Mutex
	conn    *faultConn
	down    int
	frozen  [2]int
	thawed  [2]chan struct{}
	delay   time.Duration
	fates   []fated
	traffic Traffic

	pipes   [2]*pipe // there and back
	closed  chan struct{}
	running sync.WaitGroup
}

// faultConn is one connection; broken is closed when it is cut.
type faultConn struct{ broken chan struct{} }

type fated struct {
	Fate
	met chan struct{}
}

// requestSort says what a request counts as.
type requestSort int

const (
	renewal requestSort = iota
	reading
	writing
)

func newFaultLink(inOrder bool, connected func()) *faultLink {
	l := &faultLink{inOrder: inOrder, connected: connected, conn: &faultConn{make(chan struct{})}, closed: make(chan struct{})}
	for i := range l.pipes {
		l.pipes[i] = &pipe{link: l, way: i, more: make(chan struct{}, 1)}
		l.running.Go(l.pipes[i].run)
	}
	return l
}

func (l *faultLink) close() {
	close(l.closed)
	l.running.Wait()
}

// do sends a request and waits for the answer. After an error it is unknown whether and when the service applies it.
func (l *faultLink) do(ctx context.Context, sort requestSort, size int, apply func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	conn, fate, up := l.begin(sort, size)
	if !up {
		select {
		case <-time.After(5 * time.Millisecond):
			return errLinkLost
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	answered, lost := make(chan struct{}), make(chan struct{})
	l.pipes[0].push(conn, func() {
		if fate.met != nil {
			l.meet(fate, apply)
			close(lost)
			return
		}
		apply()
		l.pipes[1].push(conn, func() {
			l.count(func(t *Traffic) { t.Received += int64(64 + size) })
			close(answered)
		})
	})
	select {
	case <-answered:
		return nil
	case <-lost:
		if l.inOrder {
			l.cut()()
		}
		return errLinkLost
	case <-conn.broken:
		return errLinkLost
	case <-l.closed:
		return errLinkLost
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin counts a request and returns its fate, if the link is up.
func (l *faultLink) begin(sort requestSort, size int) (conn *faultConn, fate fated, up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down > 0 {
		return nil, fated{}, false
	}
	l.traffic.Sent += int64(64 + size)
	switch sort {
	case reading:
		l.traffic.Reads++
	case writing:
		l.traffic.Writes++
		if len(l.fates) > 0 {
			fate, l.fates = l.fates[0], l.fates[1:]
		}
	}
	return l.conn, fate, true
}

func (l *faultLink) meet(fate fated, apply func()) {
	switch {
	case fate.Fate == LostBefore:
	case fate.Fate == AppliedLate && !l.inOrder:
		l.running.Go(func() {
			select {
			case <-time.After(Late):
				apply()
			case <-l.closed:
			}
		})
	default:
		apply()
	}
	close(fate.met)
}

// tell sends news; it does not block. Without a connection nobody hears it.
func (l *faultLink) tell(deliver func()) {
	l.mu.Lock()
	conn, down := l.conn, l.down > 0
	l.mu.Unlock()
	if down {
		return
	}
	l.pipes[1].push(conn, func() {
		l.count(func(t *Traffic) { t.Events, t.Received = t.Events+1, t.Received+64 })
		deliver()
	})
}

func (l *faultLink) count(add func(t *Traffic)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	add(&l.traffic)
}

func (l *faultLink) counted() Traffic {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.traffic
}

// broken is closed when the connection that stands now breaks.
func (l *faultLink) broken() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn.broken
}

func (l *faultLink) fate(f Fate) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	met := make(chan struct{})
	l.fates = append(l.fates, fated{f, met})
	return met
}

func (l *faultLink) freeze(d Direction) func() {
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

func (l *faultLink) cut() func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.conn.broken)
	l.conn = &faultConn{make(chan struct{})}
	l.down++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		l.down--
		up := l.down == 0
		l.mu.Unlock()
		if up && l.connected != nil {
			l.connected()
		}
	})
}

func (l *faultLink) slow(each time.Duration) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay += each
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.delay -= each
	})
}

// pipe is one way through a link.
type pipe struct {
	link *faultLink
	way  int
	more chan struct{}

	mu    sync.Mutex
	queue []parcel
}

type parcel struct {
	conn   *faultConn
	due    time.Time
	arrive func()
}

func (p *pipe) push(conn *faultConn, arrive func()) {
	p.link.mu.Lock()
	due := time.Now().Add(p.link.delay)
	p.link.mu.Unlock()
	p.mu.Lock()
	p.queue = append(p.queue, parcel{conn, due, arrive})
	p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
}

func (p *pipe) run() {
	for {
		p.mu.Lock()
		if len(p.queue) == 0 {
			p.mu.Unlock()
			select {
			case <-p.more:
				continue
			case <-p.link.closed:
				return
			}
		}
		next := p.queue[0]
		p.queue = p.queue[1:]
		p.mu.Unlock()
		if p.passes(next) {
			next.arrive()
		}
	}
}

// passes waits until a parcel may arrive. It does not if its connection breaks first.
func (p *pipe) passes(next parcel) bool {
	due := time.NewTimer(time.Until(next.due))
	defer due.Stop()
	select {
	case <-due.C:
	case <-next.conn.broken:
		return false
	case <-p.link.closed:
		return false
	}
	for {
		p.link.mu.Lock()
		frozen, thawed := p.link.frozen[p.way] > 0, p.link.thawed[p.way]
		p.link.mu.Unlock()
		if !frozen {
			break
		}
		select {
		case <-thawed:
		case <-next.conn.broken:
			return false
		case <-p.link.closed:
			return false
		}
	}
	select {
	case <-next.conn.broken:
		return false
	default:
		return true
	}
}
