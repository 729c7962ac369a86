package main

import (
	"time"

	"github.com/turnwise/turnwise/verify/servers"
)

// A link between two members that is held in one direction delivers in the other. A member that hears nothing may still be
// heard, and one that is not heard goes on listening, for as long as the service puts up with it.

// oneWay holds what one member says to another.
func oneWay(s *scene) (func() error, error) {
	from, to, err := s.link()
	if err != nil {
		return nil, err
	}
	return healed(s.cluster.Hold(from, to)), nil
}

// oneWayThenTheOther holds a link in one direction for less than a session lasts, and in the other as soon as what was held
// arrives: a client then hears what the leader said, and the leader does not hear of the client.
func oneWayThenTheOther(s *scene) (func() error, error) {
	from, to, err := s.link()
	if err != nil {
		return nil, err
	}
	release := s.cluster.Hold(from, to)
	time.Sleep(s.session/2 + s.part(s.session*2/5)) // a follower that hears nothing for longer leaves its leader
	back := s.cluster.Hold(to, from)
	release()
	return healed(back), nil
}

// link returns the two ends of a link between the leader and the follower that most workers are connected to, in either
// order.
func (s *scene) link() (from, to *servers.Member, err error) {
	follower, leader, err := s.aloof()
	if s.random.IntN(2) == 0 {
		return follower, leader, err
	}
	return leader, follower, err
}

// leaderWakesApart stops the leader and lets it wake cut off from the others, but not from its clients: it believes to lead
// still.
func leaderWakesApart(s *scene) (func() error, error) {
	leader, err := s.leader()
	if err != nil {
		return nil, err
	}
	thaw, err := frozen(func(*scene) (*servers.Member, error) { return leader, nil })(s)
	if err != nil {
		return nil, err
	}
	heal := s.cluster.Isolate(leader)
	time.Sleep(s.session/4 + s.part(s.session*3/2))
	return healed(heal), thaw()
}
