package drivertest

import (
	"fmt"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// What the driver promises must be shown to hold, and what it denies not to hold (see driver.Strength). A strength
// that promises too little is as wrong as one that promises too much, since programs choose by it.
var strengths = []scenario{
	{name: "it says one thing that can be", run: strengthIsConstant},
	{name: "turns come in the order of joining, or not", run: orderAcrossProcesses},
	{name: "a process that is not heard of", run: deathUnheard},
	{name: "a process that is killed", run: deathByKill},
	{name: "waiters are told, or poll", alone: true, run: waitersToldOrPoll},
	{name: "a restart", last: true, run: afterRestart},
	{name: "a fail-over", last: true, run: afterFailover},
}

// silenceEnds is for a session on this link that the service does not hear from. It returns true if the TTL is to end the
// session: then the scenario waits for that. Where only the kernel reports a death, silenceEnds itself checks the opposite,
// for as long as a TTL would have taken: what stands in the line stays, and wrong, if given, finds nothing wrong.
func (s *scene) silenceEnds(l *Link, wrong func() string) bool {
	s.Helper()
	if l.Strength().Death&driver.ByTTL != 0 {
		return true
	}
	stood := len(s.svc.Stored(s, s.line))
	for until := time.Now().Add(s.svc.TTL + s.svc.grace()); time.Now().Before(until); time.Sleep(tick) {
		if stands := s.svc.Stored(s, s.line); len(stands) != stood {
			s.Fatalf("the strength says that only the kernel ends a session, and its node has gone: of %d there are %q", stood, stands)
		}
		if wrong == nil {
			continue
		}
		if what := wrong(); what != "" {
			s.Fatalf("the strength says that only the kernel ends a session, and %s", what)
		}
	}
	return false
}

// waitQuietly reports whether waiters are told of changes, and so ask for next to nothing. The requests of waiters that
// poll are not counted: they ask all the time, and hear nothing while they cannot ask.
func waitQuietly(l *Link) bool { return l.Strength().WakeUp == driver.Told }

// over is a check for silenceEnds: it says so if a session has ended, or its deadline has passed.
func over(sess driver.Session) func() string {
	return func() string {
		switch {
		case ended(sess):
			return "the session has ended"
		case !time.Now().Before(sess.Deadline()):
			return "the deadline has passed"
		}
		return ""
	}
}

// answered is a check for silenceEnds: it says so if an answer has come.
func answered[T any](c <-chan T, what string) func() string {
	return func() string {
		if _, ok := arrives(0, c); ok {
			return what
		}
		return ""
	}
}

func strengthIsConstant(s *scene) {
	one, other := s.connect(), s.connect()
	before := one.Strength()
	s.join(s.open(one))
	if after := one.Strength(); after != before || other.Strength() != before {
		s.Errorf("one link says %v, then %v; another says %v", before, after, other.Strength())
	}
	if before.Restart == driver.NoFailover {
		s.Error("NoFailover says nothing of a restart")
	}
	if before.Death == 0 {
		s.Error("a death is noticed by nobody")
	}
	if before.Lacks(before) != "" || before.Order > driver.FirstCome || before.Death > driver.ByTTL|driver.ByKernel || before.Restart > driver.Remembers ||
		before.Failover > driver.Remembers || before.Tokens > driver.RiseForEver || before.WakeUp > driver.Told {
		s.Errorf("there is no such strength: %v", before)
	}
}

// Each joins after the previous one has joined.
func orderAcrossProcesses(s *scene) {
	var sessions []driver.Session
	var claimed driver.Strength
	for range 3 {
		sess, l := s.session()
		sessions, claimed = append(sessions, sess), l.Strength()
	}
	overtaken := 0
	for range 5 {
		var joined []driver.Place
		for i := range 9 {
			me, ahead := s.join(sessions[i*2%3])
			for _, before := range joined {
				if before.Node().Token > me.Node().Token || len(ahead) > 0 && before.Node().Token > ahead[len(ahead)-1].Token {
					overtaken++
				}
			}
			joined = append(joined, me)
		}
		for _, me := range joined {
			s.leave(me, false)
		}
	}
	switch {
	case claimed.Order == driver.FirstCome && overtaken > 0:
		s.Errorf("%d times somebody was overtaken by one who joined later", overtaken)
	case claimed.Order == driver.AnyOrder && overtaken == 0:
		s.Error("the strength denies that who joined first goes first, and nobody was overtaken")
	}
}

func deathUnheard(s *scene) {
	p := s.pair()
	s.needs("freeze a link", p.aheadLink.Freeze == nil)
	waiter := s.queue(p.behind, []driver.Node{p.ahead.Node()}, nil)
	thaw := p.aheadLink.Freeze(Both)
	defer thaw()
	if s.silenceEnds(p.aheadLink, answered(waiter, "who waits behind it has its turn")) {
		s.turn(s.outlives(), waiter, "the strength says that a TTL ends the session ahead")
		return
	}
	thaw()
	s.leave(p.ahead, true)
	s.turn(2*soon, waiter, "the one who was not heard of has left")
}

func deathByKill(s *scene) {
	// A busy machine may be late to report it: of three rounds, one must be good.
	for range 3 {
		p := s.pair()
		kill := p.aheadLink.Kill
		if kill == nil && p.aheadLink.Cut != nil {
			kill = func() { p.aheadLink.Cut() }
		}
		s.needs("kill a process", kill == nil)
		waiter := s.queue(p.behind, []driver.Node{p.ahead.Node()}, nil)
		time.Sleep(50 * time.Millisecond)
		kill()
		if p.aheadLink.Strength().Death&driver.ByKernel == 0 {
			// The session was renewed within about the last third of the TTL.
			s.noAnswer(s.svc.TTL/5, waiter, "the strength denies that the kernel tells of a death")
			s.turn(s.outlives(), waiter, "the strength says that a TTL ends the session of the dead")
			return
		}
		if a, ok := arrives(min(soon, s.svc.TTL/2), waiter); ok {
			if a.err != nil || len(a.ahead) > 0 {
				s.Errorf("who waits behind the dead: ahead %v, error %v", brief(a.ahead...), a.err)
			}
			return
		}
		s.turn(s.outlives(), waiter, "the one ahead is dead")
		s.leave(p.behind, true)
	}
	s.Error("the strength says that the kernel tells of a death at once, and it took longer")
}

// A waiter that is told asks only now and then, because it does not rely on its watch alone, but not ten times a second.
func waitersToldOrPoll(s *scene) {
	p := s.pair()
	s.needs("count what passes", p.behindLink.Traffic == nil)
	waiter := s.queue(p.behind, []driver.Node{p.ahead.Node()}, nil)
	time.Sleep(200 * time.Millisecond) // until it waits
	before := p.behindLink.Traffic()
	s.noAnswer(2*soon, waiter, "nobody has left")
	waited := p.behindLink.Traffic()
	s.leave(p.ahead, true)
	s.turn(soon, waiter, "the node ahead has left")
	asked := waited.Sub(before).Reads
	events := func() int { return p.behindLink.Traffic().Sub(waited).Events }
	switch p.behindLink.Strength().WakeUp {
	case driver.Told:
		// The waiter's own look may have been quicker than the news.
		if !s.happens(s.patience, func() bool { return events() > 0 }) || asked > 10*int(2*soon/time.Second) {
			s.Errorf("the strength says that waiters are told: there were %d events, and %d reads in %v before", events(), asked, 2*soon)
		}
	case driver.Polled:
		if told := events(); told > 0 || asked == 0 {
			s.Errorf("the strength denies that waiters are told: there were %d events, and %d reads in %v before", told, asked, 2*soon)
		}
	}
}

func afterRestart(s *scene) {
	s.needs("restart the service", s.svc.Restart == nil)
	s.recalls(func() { s.svc.Restart(s) }, s.connect().Strength().Restart)
}

func afterFailover(s *scene) {
	recall := s.connect().Strength().Failover
	if recall == driver.NoFailover {
		if s.svc.Failover != nil {
			s.Error("the strength denies that anybody takes over, and the harness can make that happen")
		}
		return
	}
	s.needs("make another machine take over", s.svc.Failover == nil)
	s.recalls(func() { s.svc.Failover(s) }, recall)
}

// recalls checks what the service still knows after strike. The answers depend on what happens within a TTL, so a busy
// machine may spoil a round: of three, one must be good.
func (s *scene) recalls(strike func(), recall driver.Recall) {
	var failure string
	for range 3 {
		s.line = s.anotherLine()
		if failure = s.recallsOnce(strike, recall); failure == "" {
			return
		}
		s.Log(failure)
	}
	s.Error(failure)
}

// risesAsClaimed checks a token that comes after another, and after what the service remembers only in part.
func (s *scene) risesAsClaimed(claimed driver.Rise, recall driver.Recall, last, next driver.Token) (failure string) {
	s.Helper()
	switch {
	case claimed == driver.RiseForEver && next <= last:
		s.Fatalf("the strength says that tokens rise for ever: %d comes after %d", next, last)
	case recall == driver.Remembers && next <= last:
		s.Fatalf("the strength says that it remembers every answered write: token %d comes after %d", next, last)
	case claimed == driver.RiseWhileRemembered && recall < driver.Remembers && next > last:
		return fmt.Sprintf("the strength denies that tokens rise for ever, and they did: %d, then %d", last, next)
	}
	return ""
}

func (s *scene) recallsOnce(strike func(), recall driver.Recall) (failure string) {
	p := s.pair()
	for range 5 { // so that tokens that start over are not just as great by chance
		s.leave(p.behind, false)
		s.leave(p.ahead, true)
		p.join(s)
	}
	last := p.behind.Node().Token
	believes := p.aheadSess.Deadline() // the holder believes at least until then
	strike()
	sess, l := s.session()
	e := s.entry("lock")
	e.Sight.Nearest = driver.All
	next, ahead := s.joinAs(sess, e)
	entered := time.Now()
	stands := standsIn(ahead, p.ahead.Node())
	failure = s.risesAsClaimed(l.Strength().Tokens, recall, last, next.Node().Token)
	switch recall {
	case driver.Remembers:
		if !stands || len(ahead) != 2 || ended(p.aheadSess) || ended(p.behindSess) {
			return fmt.Sprintf("the strength says that it remembers every answered write: of two in line there are %v", brief(ahead...))
		}
		s.leave(p.ahead, true)
		s.turn(2*soon, s.queue(p.behind, []driver.Node{p.ahead.Node()}, nil), "the holder of before has left")
		s.leave(p.behind, true)
		s.leave(next, false)
		return failure
	case driver.ForgetsOpenly:
		if stands {
			return fmt.Sprintf("the strength says that it forgets, and it remembers %v", brief(ahead...))
		}
		if entered.Before(p.aheadSess.Deadline()) && !ended(p.aheadSess) {
			s.Fatalf("the strength says that nobody is granted beside a holder: it believes for another %v", time.Until(p.aheadSess.Deadline()))
		}
		s.wait(s.outlives(), p.aheadSess.Done(), "the session of before ends")
	case driver.Forgets:
		if stands {
			return fmt.Sprintf("the strength says that it forgets, and it remembers %v", brief(ahead...))
		}
		if !entered.Before(believes) {
			return "the strength denies that it says what it forgets, and nobody was let in beside the holder"
		}
	}
	s.leave(next, false)
	return failure
}
