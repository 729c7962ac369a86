package drivertest

import (
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// The common operations cost no more than they must.
var budgets = []scenario{
	{name: "requests and events", alone: true, run: budgetOfRequests},
	{name: "round trips", alone: true, run: budgetOfTrips},
}

// affords says that a round of f costs no more than the budget.
func (s *scene) affords(what string, budget Cost, f func() Traffic) {
	s.Helper()
	within := func(t Traffic) bool {
		return t.Writes <= budget.Writes && t.Reads <= budget.Reads && t.Events <= budget.Events
	}
	spent := least(within, f)
	s.Logf("%s: %+v", what, spent)
	if !within(spent) {
		s.Errorf("%s cost %d writes, %d reads, %d events; the budget is %d, %d, %d", what,
			spent.Writes, spent.Reads, spent.Events, budget.Writes, budget.Reads, budget.Events)
	}
}

// least returns the traffic of the round with the fewest requests and events. It stops at one that costs no more than enough.
// The process may be sweeping beside, in lines of other scenarios as well, so the rounds are further and further apart.
func least(enough func(Traffic) bool, f func() Traffic) (t Traffic) {
	for i := range 30 {
		if spent := f(); i == 0 || spent.Requests()+spent.Events < t.Requests()+t.Events {
			t = spent
		}
		if enough(t) {
			break
		}
		time.Sleep(time.Duration(i) * time.Millisecond)
	}
	return t
}

func budgetOfRequests(s *scene) {
	sess, l := s.session()
	s.needs("count traffic, or has no budget", l.Traffic == nil || s.svc.Budget == Budget{})
	b := s.svc.Budget
	var me driver.Place
	spent := func(f func()) func() Traffic {
		return func() Traffic {
			before := l.Traffic()
			f()
			return l.Traffic().Sub(before)
		}
	}
	join := func() { me, _ = s.join(sess) }
	leave := func() { s.leave(me, true) }
	join()
	leave()
	s.affords("an uncontended join", b.Join, func() Traffic {
		t := spent(join)()
		leave()
		time.Sleep(5 * time.Millisecond)
		return t
	})
	s.affords("a leave", b.Leave, func() Traffic {
		join()
		time.Sleep(5 * time.Millisecond)
		t := spent(leave)()
		time.Sleep(5 * time.Millisecond)
		return t
	})

	head, _ := s.session()
	s.affords("a hand-off", b.Handoff, func() Traffic {
		first, _ := s.join(head)
		second, ahead := s.join(sess)
		waiter := s.await(second, ahead...)
		time.Sleep(50 * time.Millisecond)
		t := spent(func() {
			s.leave(first, true)
			s.turn(soon, waiter, "the node ahead has left")
		})()
		s.leave(second, true)
		return t
	})
}

// budgetOfTrips makes round trips slow, so that the time something takes shows how many it needs.
func budgetOfTrips(s *scene) {
	sess, l := s.session()
	s.needs("delay a link, or has no budget", l.Delay == nil || s.svc.Budget == Budget{})
	if testing.Short() {
		s.Skip("it takes a while")
	}
	b := s.svc.Budget
	head, _ := s.session()
	me, _ := s.join(sess)
	s.leave(me, true)

	// What a busy machine adds does not grow with the delay, as a round trip too many does. So a slower link tells them apart.
	trips := func(what string, budget int, took func(each time.Duration) time.Duration) {
		s.Helper()
		for each := 25 * time.Millisecond; ; each *= 2 {
			best, limit := time.Hour, 2*each*time.Duration(budget)+each
			restore := l.Delay(each)
			for n := 0; n < 5 && best > limit; n++ {
				best = min(best, took(each))
			}
			restore()
			s.Logf("%s: %v, with a round trip of %v", what, best.Round(time.Millisecond), 2*each)
			if best <= limit {
				return
			}
			if each > s.svc.TTL/20 {
				s.Errorf("%s took %v with a round trip of %v; the budget is %d", what, best, 2*each, budget)
				return
			}
		}
	}
	trips("an uncontended join", b.Join.Trips, func(time.Duration) time.Duration {
		start := time.Now()
		me, _ := s.join(sess)
		defer s.leave(me, true)
		return time.Since(start)
	})
	trips("a leave", b.Leave.Trips, func(time.Duration) time.Duration {
		me, _ := s.join(sess)
		start := time.Now()
		s.leave(me, true)
		return time.Since(start)
	})
	trips("a hand-off, the event aside", b.Handoff.Trips, func(each time.Duration) time.Duration {
		first, _ := s.join(head)
		second, ahead := s.join(sess)
		waiter := s.await(second, ahead...)
		time.Sleep(8 * each)
		s.leave(first, true)
		left := time.Now() // at the service it was a little earlier
		s.turn(soon, waiter, "the node ahead has left")
		took := time.Since(left) - each
		s.leave(second, true)
		return took
	})
}
