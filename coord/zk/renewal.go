package zk

import (
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver/deadlines"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

// renewal is until when the service surely keeps a session. What shows that is said by deadlines.Links; its times are
// durations since began.
type renewal struct {
	began    time.Time // before the session did
	deadline *driverkit.Deadline
	heard    driverkit.Max // when the latest request was sent that any server has answered

	mu      sync.Mutex
	links   deadlines.Links
	of      *wire.Conn // the connection that made them
	timeout time.Duration
}

// sureAtMost is for how much of the timeout a session is sure at most when a request was answered, in hundredths. At times the
// links allow for more, such as just after a connection was made, but then it would be less and less for a while. Whoever
// uses a hold would take that for a silent service: turnwise ends its command when half of the time has passed for which the
// hold was once sure.
const sureAtMost = 56

func newRenewal() renewal {
	return renewal{began: time.Now(), deadline: driverkit.NewDeadline()}
}

// connected records a new connection, and with fresh a session that has just been made.
func (r *renewal) connected(w *wire.Conn, sent time.Time, timeout time.Duration, fresh bool) {
	r.heard.Saw(int64(sent.Sub(r.began)))
	r.mu.Lock()
	defer r.mu.Unlock()
	if fresh {
		r.links = deadlines.Links{}
	}
	r.of, r.timeout = w, timeout
	r.sure(r.links.Connected(sent.Sub(r.began), timeout), sent)
}

// answered records an answer that has just come.
func (r *renewal) answered(w *wire.Conn, sent time.Time, by wire.Authority) {
	r.heard.Saw(int64(sent.Sub(r.began)))
	if by == wire.Server {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if w == r.of {
		link := deadlines.Link{Sent: sent.Sub(r.began), Answered: time.Since(r.began), Commit: by == wire.Majority}
		r.sure(r.links.Answered(link), sent)
	}
}

// sure is called with mu held.
func (r *renewal) sure(until time.Duration, sent time.Time) {
	r.deadline.Renewed(r.began, min(until, sent.Sub(r.began)+r.timeout*sureAtMost/100))
}

// silent returns for how long nothing that was sent has been answered.
func (r *renewal) silent() time.Duration {
	return time.Since(r.began) - time.Duration(r.heard.Load())
}

// next returns in how long the next link is due, and whose answer it needs.
func (r *renewal) next(needed bool) (due time.Duration, by wire.Authority) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, commit := r.links.Next(needed)
	if by = wire.Leader; commit {
		by = wire.Majority
	}
	return at - time.Since(r.began), by
}

// inDoubt reports whether so little has been heard that the service may have ended the session.
func (s *session) inDoubt() bool { return s.renewal.silent() > s.timeout()/2 }

// keep has the session renewed by a sync, or by a write that changes nothing, unless requests of the application do so. It
// also gives up a connection on which an answer has been due for too long: the server answers pings, but has lost its leader.
// The library then tries the next one.
func (s *session) keep() {
	for driverkit.Sleep(s.life.Context(), s.beat()) == nil {
		w := s.latest()
		if w == nil {
			continue
		}
		waiting, timeout := w.Waiting(time.Now()), s.timeout()
		if waiting > timeout/2 || waiting > timeout*3/10 && w.Awaits(wire.Leader) {
			w.Conn.Close()
			continue
		}
		if s.connected() {
			s.renew(s.usable.Load())
		}
	}
}

// beat is how long to wait before looking again at what is due: until that time comes, or not for long.
func (s *session) beat() time.Duration {
	most := s.timeout() / 32
	if due, _ := s.renewal.next(s.isNeeded()); due > 0 {
		return min(due, most)
	}
	return most
}

// isNeeded reports whether something of ours stands in line.
func (s *session) isNeeded() bool { return s.roster.standing.Load() > 0 }

// renew makes the next link if it is due and none that would do is under way. Before we have said who we are, some servers
// take no request.
func (s *session) renew(w *wire.Conn) {
	s.renewing.Lock()
	defer s.renewing.Unlock()
	due, by := s.renewal.next(s.isNeeded())
	if due > 0 || !s.introduced.Load() || w.Awaits(by) {
		return
	}
	link, _ := wire.Sync(s.service.rootDir())
	if by == wire.Majority {
		link = wire.Check(s.service.rootDir(), func(error) {})
	}
	w.Send(link)
}
