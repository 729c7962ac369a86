package drivertest

import (
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Obligation 7. A hold ends when the deadline passes; if the service let the next one in before that, two would hold.
var deadlines = []scenario{
	{name: "nothing passes", run: deadlineWhenFrozen(Both)},
	{name: "no request passes", run: deadlineWhenFrozen(Requests)},
	{name: "no reply passes", run: deadlineWhenDeaf},
	{name: "the link is cut", run: deadlineWhenCut},
	{name: "replies arrive late", run: deadlineWhenRepliesAreLate},
	{name: "everything takes long", run: deadlineInSlowLink},
	{name: "it moves forward only", run: deadlineMovesForward},
}

// expiresAfterDeadline waits for the service to remove the only node of the line, and checks that the deadline of its
// session passed before.
func (s *scene) expiresAfterDeadline(sess driver.Session, l *Link) {
	s.Helper()
	if !s.silenceEnds(l, over(sess)) {
		return
	}
	// Nobody waits here, so it is left to whoever sweeps: and who does may be cut off as well, once or twice.
	for limit := time.Now().Add(2 * s.outlives()); ; {
		if len(s.svc.Stored(s, s.line)) == 0 {
			break
		}
		if time.Now().After(limit) {
			s.Fatalf("the node of a dead session still stands after %v", 2*s.outlives())
		}
	}
	removed := time.Now()
	if d := sess.Deadline(); !d.Before(removed) {
		s.Errorf("the service has removed the node, and the deadline passes only in %v", d.Sub(removed))
	}
}

func deadlineWhenFrozen(d Direction) func(s *scene) {
	return func(s *scene) {
		sess, l := s.session()
		s.needs("freeze a link", l.Freeze == nil)
		s.join(sess)
		time.Sleep(s.svc.TTL / 3)
		defer l.Freeze(d)()
		s.expiresAfterDeadline(sess, l)
	}
}

func deadlineWhenCut(s *scene) {
	sess, l := s.session()
	s.needs("cut a link", l.Cut == nil)
	s.join(sess)
	time.Sleep(s.svc.TTL / 3)
	defer l.Cut()()
	s.expiresAfterDeadline(sess, l)
}

// The service hears every renewal, but no answer arrives.
func deadlineWhenDeaf(s *scene) {
	sess, l := s.session()
	s.needs("freeze a link", l.Freeze == nil)
	s.join(sess)
	defer l.Freeze(Replies)()
	if !s.silenceEnds(l, over(sess)) {
		return
	}
	time.Sleep(s.svc.TTL)
	if d := sess.Deadline(); !d.Before(time.Now()) {
		s.Errorf("nothing was heard for a TTL, and the deadline passes only in %v", time.Until(d))
	}
}

// Renewals are answered, but the answers arrive much later, and then nothing more: an answer says that the service
// heard from us at some time after the request was sent, not when the answer arrives.
func deadlineWhenRepliesAreLate(s *scene) {
	sess, l := s.session()
	s.needs("freeze a link", l.Freeze == nil)
	s.join(sess)
	hear := l.Freeze(Replies)
	defer hear()
	time.Sleep(s.svc.TTL * 3 / 10)
	defer l.Freeze(Requests)()
	time.Sleep(s.svc.TTL * 3 / 10)
	hear()
	s.expiresAfterDeadline(sess, l)
}

// Whatever has been heard was asked for a round trip ago. The link gets slower little by little, so that the session may
// survive it. The longer a round trip is, the less can a safety margin hide that the driver counts from the receipt.
func deadlineInSlowLink(s *scene) {
	sess, l := s.session()
	s.needs("delay a link", l.Delay == nil)
	ttl := s.svc.TTL
	restore := func() {}
	defer func() { restore() }()
	if !s.silenceEnds(l, over(sess)) {
		restore = l.Delay(ttl / 6)
		s.silenceEnds(l, over(sess))
		return
	}
	lasts := map[int]time.Duration{4: ttl * 3 / 2, 7: ttl}
	for step := 1; step <= 7; step++ {
		each, faster := ttl*time.Duration(step)/42, restore
		restore = l.Delay(each)
		faster()
		time.Sleep(2 * each) // by now, nothing is left that was sent without this delay
		for until := time.Now().Add(max(lasts[step], ttl/10)); time.Now().Before(until); time.Sleep(2 * time.Millisecond) {
			if ended(sess) {
				s.Skipf("the session did not survive a delay of %v", each)
			}
			now := time.Now()
			if left := sess.Deadline().Sub(now); left > ttl-2*each {
				s.Fatalf("the deadline is %v away; with a TTL of %v and a round trip of %v it can be %v at most", left, ttl, 2*each, ttl-2*each)
			}
		}
	}
}

func deadlineMovesForward(s *scene) {
	sess, l := s.session()
	stop := make(chan struct{})
	var cutter sync.WaitGroup
	defer cutter.Wait()
	defer close(stop)
	if l.Cut != nil {
		cutter.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(s.svc.TTL / 6):
					l.Cut()()
				}
			}
		})
	}
	bounded := s.silenceEnds(l, over(sess))
	var last time.Time
	for until := time.Now().Add(2 * s.svc.TTL); time.Now().Before(until); time.Sleep(time.Millisecond) {
		now, d := time.Now(), sess.Deadline()
		if d.Before(last) {
			s.Fatalf("the deadline moved back by %v", last.Sub(d))
		}
		if bounded && d.Sub(now) >= s.svc.TTL {
			s.Fatalf("the deadline is %v away, the TTL %v", d.Sub(now), s.svc.TTL)
		}
		last = d
	}
}
