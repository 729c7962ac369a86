package main

import (
	"context"
	"time"

	"github.com/turnwise/turnwise/verify/servers"
)

// hasClock reports whether the servers have clocks that can be set. etcd and NATS ask the system itself for the time; ZooKeeper and
// memcached go by a clock that nobody sets.
func (p plan) hasClock() bool {
	switch p.service {
	case "redis", "forgetful", "quorum", "postgres", "mysql":
		return true
	}
	return false
}

// clockSet sets the clock of one server, forwards or back, by less than a session, by a few, or by an hour, and in the end right again.
func clockSet(s *scene) (func() error, error) {
	m := s.any()
	by := []time.Duration{s.part(s.session), s.session + s.part(4*s.session), time.Hour}[s.random.IntN(3)]
	if s.random.IntN(2) == 0 {
		by = -by
	}
	return func() error { return m.SetClock(0) }, m.SetClock(by)
}

// restorable reports whether a single server may come back with older data, and no holder is surprised: all wait for the longest TTL
// after each of its starts.
func restorable(s *scene) bool {
	switch s.service {
	case "redis", "postgres", "mysql":
		return true
	}
	return false
}

// restored keeps what a server has, lets the others go on for a while, and puts it back.
func restored(s *scene) (func() error, error) {
	m := s.any()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	return func() error {
		defer cancel()
		from := mono()
		err := m.RestoreDisk(ctx)
		s.forgot, s.lost = true, append(s.lost, pause{from: from, to: mono()})
		return err
	}, m.SaveDisk(ctx)
}

// clocks are the options for a service whose clock can be set.
func (p plan) clocks() []servers.Option {
	if p.hasClock() {
		return []servers.Option{servers.Clocks()}
	}
	return nil
}
