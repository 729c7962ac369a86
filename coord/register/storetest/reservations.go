package storetest

import (
	"errors"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

// A store may ignore a reservation. Whether it helps a client that is far away is not checked.
var reservations = []scenario{
	{name: "is for the one who made it", run: reserved},
	{name: "ends when that one has swapped", run: reservationIsUsed},
	{name: "ends by itself", run: reservationEnds},
	{name: "of an empty register", run: reservedEmpty},
	{name: "a swap that is applied reserves nothing", run: nothingReserved},
	{name: "a second try of another is a success all the same", run: secondTryWhileReserved},
}

// longReserve is long enough for what a scenario does meanwhile, and not too long to be believed.
const longReserve = register.MostReserve * 8 / 10

// reserve loses on purpose, and reserves the register.
func (s *scene) reserve(store register.Store, stands register.Item, by register.Version, d time.Duration) {
	s.Helper()
	for range 2 {
		s.conflicts(store, register.Swap{
			Key: stands.Key, Old: register.NewVersion(), Next: register.NewVersion(), Value: []byte("x"), By: by, Reserve: d,
		}, stands)
	}
}

// passes makes a swap by somebody and reports whether it was applied. If not, it conflicts, and changes nothing.
func (s *scene) passes(store register.Store, stands register.Item, by register.Version) (register.Item, bool) {
	s.Helper()
	sw := register.Swap{Key: stands.Key, Old: stands.Version, Next: register.NewVersion(), Value: []byte("passed"), By: by}
	it, err := s.insist(store, sw)
	switch {
	case err == nil:
		stands = register.Item{Key: sw.Key, Value: sw.Value, Version: sw.Next}
		s.same("what Swap returned", it, stands)
	case errors.Is(err, register.ErrConflict):
		s.same("what the conflict brought", it, stands)
	default:
		s.Fatalf("Swap: %v", err)
	}
	s.stands(store, stands)
	return stands, err == nil
}

func reserved(s *scene) {
	a, b := s.open(), s.open()
	mine, other := register.NewVersion(), register.NewVersion()
	stands := s.put(a, s.key("k"), register.Version{}, "one")
	s.reserve(a, stands, mine, longReserve)
	for range 3 {
		for _, by := range []register.Version{other, {}} {
			stands, _ = s.passes(b, stands, by)
		}
	}
	// Reading goes on, and so do other registers.
	s.stands(b, stands)
	s.put(b, s.key("k2"), register.Version{}, "another")
	if _, ok := s.passes(a, stands, mine); !ok {
		s.Error("the one who has reserved the register conflicts")
	}
}

func reservationIsUsed(s *scene) {
	a, b := s.open(), s.open()
	mine, other := register.NewVersion(), register.NewVersion()
	stands := s.put(a, s.key("k"), register.Version{}, "one")
	s.reserve(a, stands, mine, longReserve)
	stands, ok := s.passes(a, stands, mine)
	if !ok {
		s.Error("the one who has reserved the register conflicts")
	}
	if stands, ok = s.passes(b, stands, other); !ok {
		s.Error("the register is reserved, though the one who had reserved it has swapped")
	}
	// Whoever has reserved it may also empty it.
	s.reserve(a, stands, mine, longReserve)
	s.swap(a, register.Swap{Key: stands.Key, Old: stands.Version, By: mine})
	if _, ok = s.passes(b, register.Item{Key: stands.Key}, other); !ok {
		s.Error("the register is reserved, though the one who had reserved it has emptied it")
	}
}

func reservationEnds(s *scene) {
	a, b := s.open(), s.open()
	mine, other := register.NewVersion(), register.NewVersion()
	stands := s.put(a, s.key("k"), register.Version{}, "one")
	s.reserve(a, stands, mine, 200*time.Millisecond)
	since := time.Now()
	for {
		var ok bool
		if stands, ok = s.passes(b, stands, other); ok {
			break
		}
		if d := time.Since(since); d > 200*time.Millisecond+2*time.Second {
			s.Fatalf("reserved for 200 ms, others conflict for %v", d)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if _, ok := s.passes(a, stands, mine); !ok {
		s.Error("whoever had reserved the register conflicts")
	}
}

func reservedEmpty(s *scene) {
	a, b := s.open(), s.open()
	mine, other := register.NewVersion(), register.NewVersion()
	stands := register.Item{Key: s.key("k")}
	s.reserve(a, stands, mine, longReserve)
	if all := s.listed(b, s.prefix); len(all) > 0 {
		s.Errorf("an empty register is listed: %v", all)
	}
	stands, ok := s.passes(b, stands, other)
	if _, mayPass := s.passes(a, stands, mine); !mayPass && !ok {
		s.Error("the one who has reserved the register conflicts")
	}
}

func nothingReserved(s *scene) {
	a, b := s.open(), s.open()
	stands := s.swap(a, register.Swap{Key: s.key("k"), Next: register.NewVersion(), Value: []byte("one"), By: register.NewVersion(), Reserve: longReserve})
	if _, ok := s.passes(b, stands, register.NewVersion()); !ok {
		s.Error("the register is reserved by a swap that was applied")
	}
}

func secondTryWhileReserved(s *scene) {
	a, b := s.open(), s.open()
	sw := register.Swap{Key: s.key("k"), Next: register.NewVersion(), Value: []byte("one"), By: register.NewVersion()}
	stands := s.swap(b, sw)
	s.reserve(a, stands, register.NewVersion(), longReserve)
	s.swap(b, sw)
}
