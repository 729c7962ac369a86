package storetest

import (
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

var ages = []scenario{
	{name: "without a clock it is negative", run: noAge},
	{name: "grows as time goes by", run: ageGrows},
}

func noAge(s *scene) {
	if s.sys.Clock {
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

// coarse is how much a store may round an age down.
const coarse = 1100 * time.Millisecond

// aged checks an age, which is rounded down: nobody must be taken for dead too early.
func (s *scene) aged(what string, age, least, most time.Duration) {
	s.Helper()
	if age < 0 || age > most+20*time.Millisecond || age < least-coarse {
		s.Errorf("%s says an age of %v, want %v to %v", what, age, least, most)
	}
}

func ageGrows(s *scene) {
	s.needs("tell an age", !s.sys.Clock)
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
