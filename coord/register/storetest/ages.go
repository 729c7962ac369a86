package storetest

import (
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

var ages = []scenario{
	{name: "without a clock it is negative", run: noAge},
	{name: "grows as time goes by", run: ageGrows},
	{name: "the clock that it is by is told", run: clockGoesOn},
}

func noAge(s *scene) {
	if s.sys.Ages {
		s.Skip("the system has a clock")
	}
	a := s.open()
	it := s.put(a, s.key("k"), register.Version{}, "x")
	for what, it := range map[string]register.Item{"Swap": it, "Read": s.read(a, it.Key), "List": s.listed(a, s.prefix)[it.Key]} {
		if it.Age >= 0 {
			s.Errorf("%s says an age of %v, and the System says that there is no clock", what, it.Age)
		}
	}
}

// coarse is how much a store may round an age down: to the difference of two moments in whole seconds, less one.
const coarse = 2100 * time.Millisecond

// aged checks an age, which is rounded down: nobody must be taken for dead too early.
func (s *scene) aged(what string, age, least, most time.Duration) {
	s.Helper()
	if age < 0 || age > most+20*time.Millisecond || age < least-coarse {
		s.Errorf("%s says an age of %v, want %v to %v (up to %v less is allowed)", what, age, least, most, coarse)
	}
}

func ageGrows(s *scene) {
	s.needs("tell an age", !s.sys.Ages)
	a, b := s.open(), s.open()
	first := s.put(a, s.key("k"), register.Version{}, "x")
	time.Sleep(1500 * time.Millisecond)

	sw := register.Swap{Key: s.key("k"), Old: first.Version, Next: register.NewVersion(), Value: []byte("y")}
	sent := time.Now()
	it := s.swap(a, sw)
	answered := time.Now()
	s.aged("Swap", it.Age, 0, time.Since(sent))
	s.aged("Read", s.read(b, it.Key).Age, time.Since(answered), time.Since(sent))

	time.Sleep(2500 * time.Millisecond)
	check := func(what string, look func() register.Item) {
		s.Helper()
		least := time.Since(answered)
		it := look()
		s.aged(what, it.Age, least, time.Since(sent))
	}
	check("Read", func() register.Item { return s.read(b, it.Key) })
	check("List", func() register.Item { return s.listed(b, s.prefix)[it.Key] })
	check("Read by a store that was opened just now", func() register.Item { return s.read(s.open(), it.Key) })
	check("a second try", func() register.Item { return s.swap(b, sw) })
	check("a conflict", func() register.Item {
		it, _ := b.Swap(s.ctx, register.Swap{Key: it.Key, Old: first.Version, Next: register.NewVersion(), Value: []byte("z")})
		return it
	})
	check("Read after the conflict", func() register.Item { return s.read(a, it.Key) })

	sent = time.Now()
	last := s.put(b, it.Key, it.Version, "z")
	answered = time.Now()
	check("Read", func() register.Item { return s.read(a, last.Key) })
	s.remove(b, last)
	sent = time.Now()
	s.put(b, it.Key, register.Version{}, "anew")
	answered = time.Now()
	check("Read of one that was made anew", func() register.Item { return s.read(a, last.Key) })
}

// clockGoesOn has a swap and some time later each of several looks tell what the clock says.
func clockGoesOn(s *scene) {
	s.needs("tell what its clock says", !s.sys.Clock)
	a, b := s.open(), s.open()
	key := s.key("k")
	began := time.Now()
	it := s.swap(a, register.Swap{Key: key, Old: s.put(a, key, register.Version{}, "x").Version, Next: register.NewVersion(), Value: []byte("x"), Clock: true})
	sure := time.Now()
	time.Sleep(1500 * time.Millisecond)
	check := func(what string, look func() register.Item) {
		s.Helper()
		least := time.Since(sure)
		now := look()
		went, most := now.Clock-it.Clock, time.Since(began)
		if it.Clock <= 0 || went < least-least/20-20*time.Millisecond || went > most+most/20+20*time.Millisecond {
			s.Errorf("%s: the clock said %v, then %v, and it went on for %v to %v", what, it.Clock, now.Clock, least, most)
		}
	}
	check("Read", func() register.Item { return s.read(b, key) })
	check("Read by a store that was opened just now", func() register.Item { return s.read(s.open(), key) })
	check("Swap that asks for it", func() register.Item {
		return s.swap(b, register.Swap{Key: key, Old: it.Version, Next: register.NewVersion(), Value: []byte("y"), Clock: true})
	})
	check("Read of a new value", func() register.Item { return s.read(a, key) })
}
