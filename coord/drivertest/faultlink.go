package drivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// ErrLinkLost is what a request sees when its FaultLink has lost it, its answer or the connection.
var ErrLinkLost = errors.New("link: connection lost")

// FaultLink carries requests from a driver to a service, and answers and news back, in order and with the faults that it is
// told to make. It is for a harness that has no network to disturb, because the service is in this process or is used
// through a library. Its methods are those that a Link needs.
type FaultLink struct {
	cfg FaultLinkConfig

	mu      sync.Mutex
	conn    *faultConn
	down    int
	frozen  [2]int
	thawed  [2]chan struct{}
	delay   time.Duration
	fates   []fated
	traffic Traffic
	over    bool

	pipes   [2]*pipe // there and back
	closed  chan struct{}
	running sync.WaitGroup
}

// FaultLinkConfig says what is at the ends of a FaultLink.
type FaultLinkConfig struct {
	// InOrder says that the service keeps a client's order, so a lost message takes the connection with it.
	InOrder bool

	// Beside says that requests that have arrived are applied concurrently, because applying them takes time.
	Beside bool

	// Connected is called when there is a connection again after a cut; it may be nil.
	Connected func()
}

// faultConn is one connection; broken is closed when it is cut.
type faultConn struct{ broken chan struct{} }

// fated is what becomes of one request: it meets a fate, or takes long on one of its ways.
type fated struct {
	Fate
	way  Direction
	long time.Duration
	met  chan struct{}
}

// Sort says what a request counts as in the Traffic, and whether it can meet a Fate.
type Sort int

const (
	Upkeep  Sort = iota // counts only in bytes
	Reading             // a read
	Writing             // a write
	Placing             // a write that creates, changes or deletes a node of a line; these meet fates
)

// NewFaultLink returns a link that works, without faults.
func NewFaultLink(cfg FaultLinkConfig) *FaultLink {
	l := &FaultLink{cfg: cfg, conn: &faultConn{make(chan struct{})}, closed: make(chan struct{})}
	for i := range l.pipes {
		l.pipes[i] = &pipe{link: l, way: i, more: make(chan struct{}, 1)}
		l.running.Go(l.pipes[i].run)
	}
	return l
}

// Close takes the link down, and returns when nothing is under way on it.
func (l *FaultLink) Close() {
	l.mu.Lock()
	if !l.over {
		l.over = true
		close(l.closed)
	}
	l.mu.Unlock()
	l.running.Wait()
}

// Link returns d, which must send its requests through this link, in the form that the suite needs. The harness fills in
// Expire.
func (l *FaultLink) Link(d driver.Driver) *Link {
	return &Link{Driver: d, Fate: l.Fate, Freeze: l.Freeze, Cut: l.Cut, Delay: l.Delay, Traffic: l.Traffic}
}

// Do sends a request of the given size and waits for the answer. apply is what the service does; it returns the size of the
// answer. After an error it is unknown whether and when the service applies the request, so apply must not write to
// anything that the caller of Do uses after that.
func (l *FaultLink) Do(ctx context.Context, sort Sort, size int, apply func() (answered int)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	conn, fate, up := l.begin(sort, size)
	if !up {
		select {
		case <-time.After(5 * time.Millisecond):
			return ErrLinkLost
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	answered, lost := make(chan struct{}), make(chan struct{})
	arrive := func() {
		if fate.Fate != 0 {
			l.meet(fate, apply)
			close(lost)
			return
		}
		if fate.way&Requests != 0 {
			l.sleep(fate.long)
		}
		size := apply()
		if fate.met != nil {
			close(fate.met)
		}
		if fate.way&Replies != 0 {
			l.sleep(fate.long)
		}
		l.pipes[1].push(conn, func() {
			l.count(func(t *Traffic) { t.Received += int64(64 + size) })
			close(answered)
		})
	}
	l.pipes[0].push(conn, func() {
		if l.cfg.Beside {
			l.running.Go(arrive)
		} else {
			arrive()
		}
	})
	select {
	case <-answered:
		return nil
	case <-lost:
		if l.cfg.InOrder {
			l.Cut()()
		}
		return ErrLinkLost
	case <-conn.broken:
		return ErrLinkLost
	case <-l.closed:
		return ErrLinkLost
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin counts a request and returns its fate, if the link is up.
func (l *FaultLink) begin(sort Sort, size int) (conn *faultConn, fate fated, up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down > 0 {
		return nil, fated{}, false
	}
	l.traffic.Sent += int64(64 + size)
	switch sort {
	case Reading:
		l.traffic.Reads++
	case Writing:
		l.traffic.Writes++
	case Placing:
		l.traffic.Writes++
		if len(l.fates) > 0 {
			fate, l.fates = l.fates[0], l.fates[1:]
		}
	}
	return l.conn, fate, true
}

func (l *FaultLink) meet(fate fated, apply func() int) {
	switch {
	case fate.Fate == LostBefore:
	case fate.Fate == AppliedLate && !l.cfg.InOrder:
		l.running.Go(func() {
			if l.sleep(Late) {
				apply()
			}
		})
	default:
		apply()
	}
	close(fate.met)
}

// sleep returns false if the link is closed first.
func (l *FaultLink) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-l.closed:
		return false
	}
}

// Tell sends news of the given size without blocking. Without a connection the news is lost. Otherwise deliver is called,
// one call at a time.
func (l *FaultLink) Tell(size int, deliver func()) {
	l.mu.Lock()
	conn, down := l.conn, l.down > 0
	l.mu.Unlock()
	if down {
		return
	}
	l.pipes[1].push(conn, func() {
		l.count(func(t *Traffic) { t.Events, t.Received = t.Events+1, t.Received+int64(64+size) })
		deliver()
	})
}

func (l *FaultLink) count(add func(t *Traffic)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	add(&l.traffic)
}

// Traffic is what has passed: see Link.
func (l *FaultLink) Traffic() Traffic {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.traffic
}

// Fate says what becomes of the next request of the sort Placing: see Link.
func (l *FaultLink) Fate(f Fate) <-chan struct{} { return l.expect(fated{Fate: f}) }

// Linger makes the next request of the sort Placing take that much longer on one of its ways, or both, without holding up
// what comes behind it. So others overtake it before it is applied, or news of it overtakes its answer. It needs a link
// with Beside set. met is closed when the request is applied.
func (l *FaultLink) Linger(way Direction, long time.Duration) (met <-chan struct{}) {
	return l.expect(fated{way: way, long: long})
}

func (l *FaultLink) expect(f fated) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.met = make(chan struct{})
	l.fates = append(l.fates, f)
	return f.met
}

// Freeze lets nothing pass: see Link.
func (l *FaultLink) Freeze(d Direction) func() {
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

// Cut resets the connection: see Link.
func (l *FaultLink) Cut() func() {
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
		if up && l.cfg.Connected != nil {
			l.cfg.Connected()
		}
	})
}

// Delay makes everything take longer: see Link.
func (l *FaultLink) Delay(each time.Duration) func() {
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
	link *FaultLink
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

// passes waits until a parcel may arrive. It returns false if the connection breaks first.
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
