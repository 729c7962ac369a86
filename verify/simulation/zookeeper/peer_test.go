package zookeeper

import (
	"testing"
	"testing/synctest"
	"time"
)

// asksLater asks without waiting for the answer.
func (k *talk) asksLater(op int32, body []byte) <-chan string {
	said := make(chan string, 1)
	go func() { said <- k.asks(op, body) }()
	synctest.Wait()
	return said
}

func children(e *Ensemble) int {
	d, _ := e.Look("/")
	return len(d.Children) - 1 // but for /zookeeper
}

// A session whose client has just been told that its write was agreed to may end: what its member says about it is late.
func TestACommitDoesNotVouchForASession(t *testing.T) {
	inBubble(t, three(10), func(t *testing.T, e *Ensemble) {
		a, leader := e.Members()[0], e.Leader()
		k, _ := speak(t, e, 0, "a", 2000, 0, nil, 0)
		k.asks(opCreate, create("/a", nil, openACL, flagEphemeral))
		release := e.Hold(leader, a)
		time.Sleep(8 * tick)
		said := k.asksLater(opCreate, create("/b", nil, openACL, flagEphemeral))
		if children(e) != 2 || len(said) > 0 {
			t.Fatal("the write does not arrive, or is answered", children(e), len(said))
		}
		e.Hold(a, leader)
		release()
		if s := <-said; s == "hung up" {
			t.Fatal("the write is not answered:", s)
		}
		time.Sleep(5 * tick)
		if children(e) != 0 {
			t.Error("the session lives", time.Until(e.Expires(e.sessions[k.id])))
		}
	})
}

func TestWhatMembersSayToEachOtherArrivesInOrderAndLate(t *testing.T) {
	inBubble(t, three(100), func(t *testing.T, e *Ensemble) {
		a, leader := e.Members()[0], e.Leader()
		k, _ := speak(t, e, 0, "a", 2000, 0, nil, 0)
		release := e.Hold(a, leader)
		said := k.asksLater(opCreate, create("/a", nil, openACL, 0))
		time.Sleep(4 * tick)
		if children(e) != 0 {
			t.Fatal("the request has arrived")
		}
		expires := e.Expires(e.sessions[k.id])
		release()
		if s := <-said; s == "hung up" || children(e) != 1 {
			t.Error(s)
		}
		if !e.Expires(e.sessions[k.id]).After(expires) {
			t.Error("the leader has not heard of the session")
		}
	})
}

func TestTheLeaderGivesUpAMemberThatIsSilent(t *testing.T) {
	inBubble(t, three(3), func(t *testing.T, e *Ensemble) {
		a, leader := e.Members()[0], e.Leader()
		release := e.Hold(a, leader)
		time.Sleep(2 * tick)
		if !a.Serves() {
			t.Fatal("too soon")
		}
		time.Sleep(3 * tick)
		if a.Serves() || e.Leader() != leader {
			t.Error("it goes on, or the leader does not", e.Leader())
		}
		release()
		time.Sleep(2 * tick)
		if !a.Serves() {
			t.Error("it has not come back")
		}
	})
}

func TestAMemberGivesUpALeaderThatIsSilent(t *testing.T) {
	inBubble(t, three(3), func(t *testing.T, e *Ensemble) {
		a, leader := e.Members()[0], e.Leader()
		release := e.Hold(leader, a)
		time.Sleep(5 * tick)
		if a.Serves() || e.Leader() != leader {
			t.Error("it goes on, or the leader does not", e.Leader())
		}
		release()
		time.Sleep(2 * tick)
		if !a.Serves() {
			t.Error("it has not come back")
		}
	})
}

// What one member has logged when the leader dies is agreed to if that member leads next. What only the dead leader has
// logged is forgotten when it comes back.
func TestALeaderDiesBetweenProposalAndCommit(t *testing.T) {
	for _, logged := range []int{0, 1} {
		cfg := three(3)
		cfg.Slow = true
		inBubble(t, cfg, func(t *testing.T, e *Ensemble) {
			a, b, leader := e.Members()[0], e.Members()[1], e.Leader()
			speaks := make(chan *talk)
			go func() {
				k, _ := speak(t, e, 2, "a", 20000, 0, nil, 0)
				speaks <- k
			}()
			synctest.Wait()
			e.Settle()
			k := <-speaks
			said := k.asksLater(opCreate, create("/a", nil, openACL, 0))
			e.Deliver(Way{From: leader.number, To: a.number}, logged) // and the acknowledgement is under way
			if children(e) != 0 || len(said) != 0 {
				t.Fatal("it is agreed to, or answered")
			}
			release := e.Hold(leader, b)
			e.Hold(leader, a)
			leader.Kill()
			if s := <-said; s != "hung up" {
				t.Error(s)
			}
			e.Hasten()
			time.Sleep(6 * tick)
			if next := e.Leader(); next == nil || logged == 1 && next != a {
				t.Fatal("this one leads:", next)
			}
			release()
			leader.Start()
			time.Sleep(4 * tick)
			if children(e) != logged {
				t.Error(logged, "have logged it, and then there are", children(e))
			}
		})
	}
}

// A leader that has lost the others goes on for a while, and so do the sessions at it. It may not agree to anything.
func TestTwoLead(t *testing.T) {
	cfg := three(8)
	inBubble(t, cfg, func(t *testing.T, e *Ensemble) {
		old := e.Leader()
		k, _ := speak(t, e, 2, "a", 2000, 0, nil, 0)
		k.asks(opCreate, create("/a", nil, openACL, flagEphemeral))
		others := e.Members()[:2]
		var late []func()
		for _, m := range others {
			late = append(late, e.Hold(m, old))
		}
		time.Sleep(4 * tick)
		for _, m := range others {
			e.Hold(old, m)
		}
		time.Sleep(4 * tick)
		for i, m := range others { // what they have said arrives, and keeps the old leader from giving up
			late[i]()
			e.Hold(m, old)
		}
		time.Sleep(7 * tick)
		if next := e.Leader(); next == old || next == nil || !old.Serves() {
			t.Fatal("no two lead", next, old.Serves())
		}
		if said := k.asks(opSync, str("/")); said == "hung up" {
			t.Error("the old leader does not answer:", said)
		}
		said := k.asksLater(opCreate, create("/b", nil, openACL, flagEphemeral))
		time.Sleep(6 * tick)
		if len(said) == 0 || <-said != "hung up" || children(e) != 1 {
			t.Error("the old leader agrees to something, or leads on", children(e))
		}
	})
}
