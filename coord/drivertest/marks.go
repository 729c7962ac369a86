package drivertest

import (
	"fmt"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// The hand-off without a look, and what must not be mistaken for one: each such mistake makes two holders.
var marks = []scenario{
	{name: "the head leaves as the holder", run: headLeavesAsHolder},
	{name: "one in the middle gives up", run: middleLeaves(func(s *scene, t *three) { s.leave(t.middle, false) })},
	{name: "one in the middle dies", run: middleLeaves(func(s *scene, t *three) {
		s.needs("expire a session", t.link.Expire == nil)
		t.link.Expire(s, t.sess)
		t.sess = s.open(t.link)
	})},
	{name: "one in the middle is removed", run: middleLeaves(func(s *scene, t *three) { s.remove(t.operator, t.middle.Node()) })},
	{name: "one in the middle is amended and gives up", run: middleLeaves(func(s *scene, t *three) {
		t.amend(s)
		s.leave(t.middle, false)
	})},
	{name: "one in the middle is amended and is removed", run: middleLeaves(func(s *scene, t *three) {
		t.amend(s)
		s.remove(t.operator, t.middle.Node())
	})},
	{name: "one in the middle is amended and dies", run: middleLeaves(func(s *scene, t *three) {
		s.needs("expire a session", t.link.Expire == nil)
		t.amend(s)
		t.link.Expire(s, t.sess)
		t.sess = s.open(t.link)
	})},
	{name: "one in the middle is amended, and gives up unheard", run: unheard(func(s *scene, t *three) {
		t.amend(s)
		s.leave(t.middle, false)
	})},
	{name: "one in the middle gives up, and the head leaves, unheard", run: bothLeaveUnheard},
	{name: "the mark of one that is not right ahead", run: markFromFarAhead},
	{name: "the mark of one session and the end of another's node", run: markOfAnotherLine},
	{name: "a chain of hand-offs", run: chainOfHandOffs},
}

// three are a head, one in the middle and a last one in line, each in a session with a link of its own.
type three struct {
	head, middle, last driver.Place
	headSess, sess     driver.Session // sess is that of the middle one
	lastSess           driver.Session
	operator, link     *Link // link is that of the middle one
	lastLink           *Link
	sight              driver.Sight // of the last one
	seen               []driver.Node
}

func (s *scene) three(sight driver.Sight) *three {
	s.Helper()
	t := &three{sight: sight}
	t.headSess, t.operator = s.session()
	t.sess, t.link = s.session()
	t.lastSess, t.lastLink = s.session()
	t.joinHead(s)
	t.join(s)
	return t
}

// joinHead lets the head join behind another node, which then leaves: a head that found the line empty may not need a mark.
func (t *three) joinHead(s *scene) {
	s.Helper()
	former, _ := s.join(t.headSess)
	t.head, _ = s.join(t.headSess)
	s.leave(former, true)
}

func (t *three) join(s *scene) {
	s.Helper()
	t.middle, _ = s.join(t.sess)
	e := s.entry("lock")
	e.Sight = t.sight
	t.last, t.seen = s.joinAs(t.lastSess, e)
	if len(t.seen) == 0 || t.seen[len(t.seen)-1].Token != t.middle.Node().Token {
		s.Fatalf("the last one sees %v ahead, want %v nearest", brief(t.seen...), brief(t.middle.Node()))
	}
}

// amend changes the data of the middle one, as an election does.
func (t *three) amend(s *scene) {
	s.Helper()
	s.amend(t.middle, "lock", fmt.Appendf(nil, "amended at %v", time.Now()))
}

// behindHead fails unless the answer, and any further one, says that the head is still ahead.
func (t *three) behindHead(s *scene, c <-chan answer, what string) {
	s.Helper()
	for limit := time.Now().Add(s.patience); ; {
		a := s.within(2*soon, c, what)
		if a.err != nil {
			s.Fatalf("%s: %v", what, a.err)
		}
		if !standsIn(a.ahead, t.head.Node()) && !standsIn(a.ahead, t.middle.Node()) {
			s.Fatalf("%s: ahead %v; the head of the line, %v, still stands", what, brief(a.ahead...), brief(t.head.Node()))
		}
		if !standsIn(a.ahead, t.middle.Node()) {
			return
		}
		if time.Now().After(limit) {
			s.Fatalf("%s: the one in the middle, %v, is still seen: %v", what, brief(t.middle.Node()), brief(a.ahead...))
		}
		c = s.await(t.last, a.ahead[len(a.ahead)-1]) // Await returned early
	}
}

func headLeavesAsHolder(s *scene) {
	t := s.three(driver.Sight{})
	waiter := s.await(t.middle, t.head.Node())
	last := s.await(t.last, t.middle.Node())
	s.noAnswer(30*time.Millisecond, waiter, "nothing happens")
	s.leave(t.head, true)
	s.turn(soon, waiter, "the head has left")
	s.noAnswer(100*time.Millisecond, s.merely(last, t.middle.Node()), "the one ahead has its turn now")
	s.leave(t.middle, true)
	s.turn(soon, s.queue(t.last, []driver.Node{t.middle.Node()}, nil), "the one in the middle has left")
}

func middleLeaves(how func(s *scene, t *three)) func(s *scene) {
	return func(s *scene) {
		t := s.three(driver.Sight{})
		for i := range 3 {
			waiter := s.await(t.last, t.middle.Node())
			time.Sleep(time.Duration(i) * 15 * time.Millisecond) // before the wait begins, and after
			how(s, t)
			t.behindHead(s, waiter, fmt.Sprintf("round %d", i))
			s.leave(t.last, false)
			t.join(s)
		}
		waiter := s.await(t.middle, t.head.Node())
		s.leave(t.head, true)
		s.turn(soon, waiter, "at last the head leaves")
	}
}

func unheard(how func(s *scene, t *three)) func(s *scene) {
	return func(s *scene) {
		t := s.three(driver.Sight{})
		s.needs("freeze a link", t.lastLink.Freeze == nil)
		for range 3 {
			waiter := s.await(t.last, t.middle.Node())
			time.Sleep(30 * time.Millisecond)
			thaw := t.lastLink.Freeze(Replies)
			how(s, t)
			time.Sleep(10 * time.Millisecond)
			thaw()
			t.behindHead(s, waiter, "what happened arrives at once")
			s.leave(t.last, false)
			t.join(s)
		}
	}
}

func bothLeaveUnheard(s *scene) {
	t := s.three(driver.Sight{})
	s.needs("freeze a link", t.lastLink.Freeze == nil)
	waiter := s.queue(t.last, []driver.Node{t.middle.Node()}, nil)
	time.Sleep(30 * time.Millisecond)
	thaw := t.lastLink.Freeze(Both)
	s.leave(t.middle, false)
	s.leave(t.head, true)
	time.Sleep(20 * time.Millisecond)
	thaw()
	s.turn(2*soon, waiter, "both have left")
}

// A rule that sees everybody may wait for a node that is not right ahead.
func markFromFarAhead(s *scene) {
	t := s.three(driver.Sight{Nearest: driver.All})
	for i := range 3 {
		waiter := s.awaitIn(s.ctx, t.last, t.head.Node())
		time.Sleep(time.Duration(i) * 15 * time.Millisecond)
		s.leave(t.head, true)
		if a := s.within(soon, waiter, "the head has left"); a.err != nil || !standsIn(a.ahead, t.middle.Node()) {
			s.Fatalf("ahead %v, error %v; the one in the middle, %v, still stands", brief(a.ahead...), a.err, brief(t.middle.Node()))
		}
		s.leave(t.middle, false)
		s.leave(t.last, false)
		t.joinHead(s)
		t.join(s)
	}
}

// The middle one's session releases something in another line, where it had to wait, before its node here goes, or at the
// same time.
func markOfAnotherLine(s *scene) {
	t := s.three(driver.Sight{})
	for i := range 6 {
		e := s.entry("lock")
		e.Line = s.line + "/another"
		former, _ := s.joinAs(t.sess, e)
		other, _ := s.joinAs(t.sess, e)
		s.leave(former, true)
		waiter := s.await(t.last, t.middle.Node())
		time.Sleep(10 * time.Millisecond)
		left := make(chan error, 1)
		go func() { left <- other.Leave(s.ctx, true) }()
		time.Sleep(time.Duration(i%2) * 30 * time.Millisecond)
		s.leave(t.middle, false)
		if err := <-left; err != nil {
			s.Fatalf("Leave: %v", err)
		}
		t.behindHead(s, waiter, "its session released another line")
		s.leave(t.last, false)
		t.join(s)
	}
}

func chainOfHandOffs(s *scene) {
	c := s.crowd(3, 15)
	for i, turn := range c.turns {
		s.turn(soon, turn, fmt.Sprintf("number %d", i))
		if i+1 < len(c.turns) {
			s.noAnswer(5*time.Millisecond, c.turns[i+1], fmt.Sprintf("number %d while %d holds", i+1, i))
		}
		s.leave(c.places[i], true)
	}
}
