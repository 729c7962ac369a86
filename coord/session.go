package coord

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// session is a driver's session with the holds that stand on it.
type session struct {
	driver.Session
	client *Client

	drop    sync.Once
	seen    atomic.Pointer[time.Time] // when it was last found alive, without asking anybody
	resting atomic.Bool               // the deadline has passed, and whoever held has been told
	roused  chan struct{}             // capacity 1: there is a hold again

	// Guarded by client.mu.
	holds    map[*Hold]struct{} // not yet released; some may be lost
	lines    map[string][]*Hold // the same, by line
	waiting  int                // how many stand in line without a hold, or are about to
	over     bool
	released chan struct{} // closed at the next release or departure, if anybody asked

	rest func() // called when nothing of the client stands in line any more; nil: there is nothing to do

	abandoned atomic.Bool // the client was closed, holds had not been released, and no TTL ends them
	closing   atomic.Bool // the client ends it, with nothing held
	leftOver  atomic.Bool // the client ends its part of it, and leaves holds to the TTL
}

// opening is a session that is being opened, for all who need it. It is given up when the last of them has gone.
type opening struct {
	cancel  context.CancelFunc
	waiting int           // guarded by client.mu
	trouble error         // why the last try failed; guarded by client.mu
	done    chan struct{} // closed when it has succeeded or failed for good
	err     error         // valid after done
}

// stalePoll is how often a session past its deadline is checked for having been renewed after all, by those who wait for it.
const stalePoll = 10 * time.Millisecond

// openTimeout is how long a driver may try to open a session before it has to say what is wrong. It is enough to try
// several servers that do not answer.
const openTimeout = 10 * time.Second

// openSession returns the session, opening one if there is none. If ctx ends first the error says what the service
// said last.
func (c *Client) openSession(ctx context.Context) (*session, error) {
	for {
		c.mu.Lock()
		if c.life.Err() != nil {
			c.mu.Unlock()
			return nil, c.noMore()
		}
		if c.session != nil {
			s := c.session
			c.mu.Unlock()
			return s, nil
		}
		o := c.opening
		if o == nil {
			o = &opening{done: make(chan struct{})}
			var openCtx context.Context
			openCtx, o.cancel = context.WithCancel(c.life)
			c.opening = o
			go c.open(openCtx, o)
		}
		o.waiting++
		c.mu.Unlock()

		select {
		case <-o.done:
			if o.err != nil {
				return nil, o.err
			}
		case <-ctx.Done():
			return nil, c.leaveOpening(o)
		}
	}
}

// leaveOpening is called by a caller that can wait no longer.
func (c *Client) leaveOpening(o *opening) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.waiting--; o.waiting == 0 && c.opening == o {
		c.opening = nil
		o.cancel()
	}
	return c.notOpen(o)
}

// notOpen says why there is no session yet; o is nil if none is being opened. It is called with client.mu held.
func (c *Client) notOpen(o *opening) error {
	if r, ok := c.driver.(driver.Recovering); ok {
		if left := r.Recovery(); left > 0 {
			return fmt.Errorf("%w: the service may have forgotten who holds, or is new: nobody is granted anything for another %v", ErrBusy, left.Round(100*time.Millisecond))
		}
	}
	if o != nil && o.trouble != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, o.trouble)
	}
	return ErrUnavailable
}

func (c *Client) open(ctx context.Context, o *opening) {
	defer o.cancel()
	defer close(o.done)
	for tries := 0; ; tries++ {
		once, cancel := context.WithTimeout(ctx, max(openTimeout, 4*c.driver.RequestTimeout()))
		ds, err := c.driver.Open(once)
		cancel()
		if err == nil {
			c.adopt(ds, o)
			return
		}
		refused := driver.IsLasting(err)
		c.mu.Lock()
		o.trouble = err
		if ctx.Err() == nil {
			why := &shown{err}
			c.troubled(why)
			c.observer.openFailed(why)
		}
		if refused || ctx.Err() != nil {
			o.err = ErrClosed
			if refused {
				o.err = translate(err)
				c.refused = o.err
			}
			if c.opening == o {
				c.opening = nil
			}
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		_ = driverkit.Sleep(ctx, driverkit.Pause(tries))
	}
}

// adopt makes a fresh session the client's, unless nobody wants it any more.
func (c *Client) adopt(ds driver.Session, o *opening) {
	s := &session{Session: ds, client: c, roused: make(chan struct{}, 1),
		holds: make(map[*Hold]struct{}), lines: make(map[string][]*Hold)}
	s.saw(time.Now())
	c.mu.Lock()
	if c.ending != nil || c.opening != o {
		c.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), c.driver.RequestTimeout())
		defer cancel()
		ds.Close(ctx)
		return
	}
	c.session, c.opening, c.refused = s, nil, nil
	c.observer.sessionOpened()
	c.mu.Unlock()
	go s.keep()
}

// keep ends the holds when the session's deadline passes, even if no packet ever arrives, and when it is over. A session on
// which nothing stands may be past its deadline for hours; see driver.Session.
func (s *session) keep() {
	timer := time.NewTimer(time.Until(s.Deadline()))
	defer timer.Stop()
	for {
		select {
		case <-s.Done():
			s.client.dropSession(s)
			return
		case <-timer.C:
		case <-s.roused:
		}
		now := time.Now()
		if left := s.Deadline().Sub(now); left > 0 {
			if !s.ended() {
				s.saw(now)
			}
			timer.Reset(left)
			continue
		}
		s.resting.Store(true) // first, so that no hold is added in between that nobody looks after
		s.loseAll(lostDeadline)
	}
}

// lost is what becomes of a hold when the session has ended, with the reason if the driver knows it. The reason is for people: its
// classes, but for ErrForgot, are not those of the loss.
func (s *session) lost() error {
	why := s.why()
	if why == driver.ErrSessionEnded {
		return lostSession
	}
	lost := fmt.Errorf("%w: %s", lostSession, strings.TrimPrefix(why.Error(), driver.ErrSessionEnded.Error()+": "))
	if errors.Is(why, ErrForgot) {
		return &said{ErrForgot, lost}
	}
	return lost
}

// why is the driver's reason, or driver.ErrSessionEnded if it gives none.
func (s *session) why() error {
	if d, ok := s.Session.(interface{ Why() error }); ok {
		if why := d.Why(); why != nil {
			return why
		}
	}
	return driver.ErrSessionEnded
}

// reason says why the session has ended, or returns nil if the client has closed it and nothing was held.
func (s *session) reason() error {
	switch {
	case s.closing.Load():
		return nil
	case s.leftOver.Load():
		return fmt.Errorf("%w before all holds were released: they are left to the service", ErrClosed)
	}
	return &shown{s.why()}
}

func (s *session) saw(at time.Time) { s.seen.Store(&at) }

// dropSession makes room for another session. The holds of this one end first: the caller may join the same line again
// long before the keeper notices.
func (c *Client) dropSession(s *session) {
	s.drop.Do(func() {
		c.mu.Lock()
		s.over = true
		c.mu.Unlock()
		s.loseAll(s.lost())
		c.mu.Lock()
		defer c.mu.Unlock()
		if !s.abandoned.Load() {
			clear(s.holds)
			clear(s.lines)
		}
		s.wakeShutdown()
		why := s.reason()
		c.troubled(why)
		c.observer.sessionEnded(why)
		if c.session == s {
			c.session = nil
		}
	})
}

// alive reports whether the session is surely alive by our own clock.
func (s *session) alive() bool { return time.Now().Before(s.Deadline()) }

// inTouch reports whether the session is alive, or rests: see driver.Session.Deadline.
func (s *session) inTouch() bool {
	r, ok := s.Session.(interface{ Rests() bool })
	return s.alive() || ok && r.Rests()
}

// ended reports whether the session is over for certain.
func (s *session) ended() bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// awaitRenewal blocks while the deadline has passed but the session may still live.
func (s *session) awaitRenewal(ctx context.Context) error {
	for !s.alive() {
		if err := s.pause(ctx, stalePoll); err != nil {
			return err
		}
	}
	return nil
}

// pause waits a moment for something that is about to happen here.
func (s *session) pause(ctx context.Context, wait time.Duration) error {
	select {
	case <-time.After(wait):
		return nil
	case <-s.Done():
		return driver.ErrSessionEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *session) loseAll(why error) {
	s.client.mu.Lock()
	holds := make([]*Hold, 0, len(s.holds))
	for h := range s.holds {
		holds = append(holds, h)
	}
	s.client.mu.Unlock()
	for _, h := range holds {
		h.finish(why)
	}
}

// add makes h one of the session's holds, unless the client gives no more turns.
func (s *session) add(h *Hold) error {
	ended := s.ended()
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	if s.client.life.Err() != nil {
		return ErrClosed
	}
	if s.over || ended {
		return driver.ErrSessionEnded
	}
	s.holds[h] = struct{}{}
	s.lines[h.acquired.line] = append(s.lines[h.acquired.line], h)
	if s.resting.CompareAndSwap(true, false) {
		select {
		case s.roused <- struct{}{}:
		default:
		}
	}
	return nil
}

// admit is add for a hold that must not be beside another one. Of a rule that panics nothing is left.
func (s *session) admit(h *Hold) error {
	if err := s.add(h); err != nil {
		return err
	}
	beside := true
	defer func() {
		if beside {
			s.remove(h)
			s.stand(-1)
			h.finish(errBeside)
		}
	}()
	if beside = s.isBeside(h); beside { // asked afterwards: of two that are added at once, one finds the other
		return errBeside
	}
	return nil
}

// has is called with client.mu held.
func (s *session) has(h *Hold) bool {
	_, has := s.holds[h]
	return has
}

// remove takes h off the session's holds. It returns true to one caller only, who then takes the node away, as the work is
// done, and calls stand(-1).
func (s *session) remove(h *Hold) bool {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	if !s.has(h) {
		return false
	}
	s.waiting++
	delete(s.holds, h)
	line := h.acquired.line
	s.lines[line] = slices.DeleteFunc(s.lines[line], func(other *Hold) bool { return other == h })
	if len(s.lines[line]) == 0 {
		delete(s.lines, line)
	}
	s.wakeShutdown()
	return true
}

// isBeside reports whether another hold of the session, which has not ended, must not be beside h.
func (s *session) isBeside(h *Hold) bool {
	s.client.mu.Lock()
	if len(s.lines[h.acquired.line]) < 2 {
		s.client.mu.Unlock()
		return false
	}
	others := slices.Clone(s.lines[h.acquired.line])
	s.client.mu.Unlock()
	me, ahead := h.stands(), []Node(nil)
	for _, other := range others {
		if other == h || other.Err() != nil {
			continue
		}
		n := other.stands()
		if n.Token < me.Token {
			ahead = append(ahead, n)
		} else if len(other.acquired.rule.WaitFor(n, []Node{me})) > 0 {
			return true
		}
	}
	slices.SortFunc(ahead, func(a, b Node) int { return cmp.Compare(a.Token, b.Token) })
	return len(h.acquired.rule.WaitFor(me, ahead)) > 0
}

// stand counts those that may have a node and no hold. by is 1 or -1.
func (s *session) stand(by int) {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	s.waiting += by
	s.wakeShutdown()
}

// awaitDepartures waits until all that stand in line without a hold have left.
func (s *session) awaitDepartures(ctx context.Context) {
	for {
		s.client.mu.Lock()
		waiting, changed := s.waiting, s.whenReleased()
		s.client.mu.Unlock()
		if waiting == 0 {
			return
		}
		select {
		case <-changed:
		case <-s.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// atRest has f called once all holds have been released and their nodes taken away. Nothing runs until then.
func (s *session) atRest(f func()) {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	s.rest = f
	s.wakeShutdown()
}

// whenReleased is called with client.mu held, and so is wakeShutdown.
func (s *session) whenReleased() <-chan struct{} {
	if s.released == nil {
		s.released = make(chan struct{})
	}
	return s.released
}

func (s *session) wakeShutdown() {
	if s.released != nil {
		close(s.released)
		s.released = nil
	}
	if s.rest != nil && len(s.holds)+s.waiting == 0 {
		go s.rest()
		s.rest = nil
	}
}
