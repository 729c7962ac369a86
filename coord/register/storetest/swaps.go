package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/turnwise/turnwise/coord/register"
)

var swaps = []scenario{
	{name: "replaces what stands there", run: replaces},
	{name: "an empty register has a key and nothing else", run: emptyRegister},
	{name: "a conflict brings what stands there", run: conflictBrings},
	{name: "a second try is a success", run: secondTry},
	{name: "a try that comes late finds that it is late", run: lateTry},
	{name: "a value that comes back is another one", run: valueComesBack},
	{name: "empties a register", run: empties},
	{name: "of many one wins", run: oneWins},
	{name: "of many that create one wins", run: oneCreates},
	{name: "of many that replace or delete one wins", run: oneReplacesOrDeletes},
	{name: "many count, and no number is lost or given twice", run: manyCount},
	{name: "many move between registers, and none disturbs another", run: manyRegisters},
	{name: "the strength is constant", run: strengthIsConstant},
}

func replaces(s *scene) {
	a, b := s.open(), s.open()
	key := s.key("k")
	first := s.put(a, key, register.Version{}, "one")
	s.stands(a, first)
	s.stands(b, first)
	second := s.put(b, key, first.Version, "two, which is longer")
	s.stands(a, second)
	third := s.put(b, key, second.Version, "3")
	s.stands(a, third)
}

func emptyRegister(s *scene) {
	a := s.open()
	it := s.read(a, s.key("k"))
	s.same("what Read returned", it, register.Item{Key: s.key("k")})
	empty := s.put(a, s.key("k"), register.Version{}, "")
	s.stands(a, empty) // a value of no bytes is something
	if _, ok := s.listed(a, s.prefix)[s.key("k")]; !ok {
		s.Error("a register whose value has no bytes is not listed")
	}
	s.conflicts(a, register.Swap{Key: s.key("k"), Next: register.NewVersion(), Value: []byte("x")}, empty)
	s.put(a, s.key("k"), empty.Version, "x")
}

func conflictBrings(s *scene) {
	a, b := s.open(), s.open()
	key := s.key("k")
	// The register is empty, and somebody believes that it is not.
	s.conflicts(a, register.Swap{Key: key, Old: register.NewVersion(), Next: register.NewVersion(), Value: []byte("x")}, register.Item{Key: key})
	one := s.put(a, key, register.Version{}, "one")
	// It is not empty, and somebody believes that it is.
	s.conflicts(b, register.Swap{Key: key, Next: register.NewVersion(), Value: []byte("x")}, one)
	two := s.put(a, key, one.Version, "two")
	s.conflicts(b, register.Swap{Key: key, Old: one.Version, Next: register.NewVersion(), Value: []byte("x")}, two)
	// Nobody empties what he has not seen.
	s.conflicts(b, register.Swap{Key: key, Old: one.Version}, two)
	s.conflicts(b, register.Swap{Key: key}, two)
	s.stands(a, two)
}

func secondTry(s *scene) {
	a, b := s.open(), s.open()
	key := s.key("k")
	create := register.Swap{Key: key, Next: register.NewVersion(), Value: []byte("one")}
	replace := register.Swap{Key: key, Old: create.Next, Next: register.NewVersion(), Value: []byte("two")}
	empty := register.Swap{Key: key, Old: replace.Next}
	for _, sw := range []register.Swap{create, replace, empty} {
		for _, store := range []register.Store{a, a, b} {
			s.swap(store, sw)
			s.stands(a, register.Item{Key: key, Value: sw.Value, Version: sw.Next})
		}
	}
}

// A version that counts would start over with the register.
func lateTry(s *scene) {
	a, b := s.open(), s.open()
	key := s.key("k")
	create := register.Swap{Key: key, Next: register.NewVersion(), Value: []byte("one")}
	replace := register.Swap{Key: key, Old: create.Next, Next: register.NewVersion(), Value: []byte("two")}
	third := register.Swap{Key: key, Old: replace.Next, Next: register.NewVersion(), Value: []byte("three")}
	empty := register.Swap{Key: key, Old: third.Next}
	s.swap(a, create)
	s.swap(a, replace)
	stands := s.swap(a, third)
	s.conflicts(b, create, stands)
	s.conflicts(b, replace, stands)
	s.swap(a, empty)
	for _, late := range []register.Swap{replace, third} {
		s.conflicts(b, late, register.Item{Key: key})
	}
	// The register is created again, and swapped as often as before.
	again := s.put(a, key, register.Version{}, "anew")
	for range 3 {
		for _, late := range []register.Swap{create, replace, third, empty} {
			s.conflicts(b, late, again)
		}
		again = s.put(a, key, again.Version, "anew and again")
	}
}

// A system that compares a hash of the value, such as an ETag, would take one for the other.
func valueComesBack(s *scene) {
	a, b := s.open(), s.open()
	key := s.key("k")
	first := s.put(a, key, register.Version{}, "a")
	stands := s.put(b, key, s.put(b, key, first.Version, "b").Version, "a")
	late := []register.Swap{
		{Key: key, Old: first.Version, Next: register.NewVersion(), Value: []byte("c")},
		{Key: key, Old: first.Version},
	}
	for _, sw := range late {
		s.conflicts(a, sw, stands)
	}
	// The same where it was emptied meanwhile.
	s.remove(b, stands)
	stands = s.put(b, key, register.Version{}, "a")
	for _, sw := range late {
		s.conflicts(a, sw, stands)
	}
}

func empties(s *scene) {
	a, b := s.open(), s.open()
	key := s.key("k")
	for range 3 {
		it := s.put(a, key, register.Version{}, "something")
		s.remove(b, it)
		s.stands(a, register.Item{Key: key})
		s.stands(b, register.Item{Key: key})
		if all := s.listed(a, s.prefix); len(all) > 0 {
			s.Errorf("an empty register is listed: %v", all)
		}
	}
}

const many = 32

// race has many swap at once, each with a store in turn. It returns the items of those that succeeded, and of those that
// conflicted.
func (s *scene) race(stores []register.Store, swapOf func(i int) register.Swap) (won, lost []register.Item) {
	s.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range many {
		all.Go(func() {
			<-start
			it, err := s.insist(stores[i%len(stores)], swapOf(i))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won = append(won, it)
			case errors.Is(err, register.ErrConflict):
				lost = append(lost, it)
			default:
				s.Errorf("Swap: %v", err)
			}
		})
	}
	close(start)
	all.Wait()
	return won, lost
}

// insist swaps until it is known whether it was applied.
func (s *scene) insist(store register.Store, sw register.Swap) (register.Item, error) {
	it, _, err := s.insistKnowing(store, sw)
	return it, err
}

// insistKnowing also says whether a try may have been applied that was not answered. Then a conflict may only say that others
// have swapped since.
func (s *scene) insistKnowing(store register.Store, sw register.Swap) (it register.Item, unsure bool, err error) {
	ctx, cancel := s.while()
	defer cancel()
	for {
		it, err = store.Swap(ctx, sw)
		if err == nil || ctx.Err() != nil || errors.Is(err, register.ErrConflict) || errors.Is(err, register.ErrTooLarge) || errors.Is(err, register.ErrForgot) {
			return it, unsure, err
		}
		unsure = true
	}
}

// mustHaveOneWinner checks a race in which only one can have won.
func (s *scene) mustHaveOneWinner(store register.Store, won, lost []register.Item) register.Item {
	s.Helper()
	if len(won) != 1 || len(lost) != many-1 {
		s.Fatalf("of %d, %d won and %d lost: one must win", many, len(won), len(lost))
	}
	for _, it := range lost {
		s.same("what a conflict brought", it, won[0])
	}
	s.stands(store, won[0])
	return won[0]
}

func oneWins(s *scene) {
	stores := s.opened(3)
	stands := s.put(stores[0], s.key("k"), register.Version{}, "start")
	for range 10 {
		old := stands.Version
		won, lost := s.race(stores, func(i int) register.Swap {
			return register.Swap{Key: s.key("k"), Old: old, Next: register.NewVersion(), Value: []byte(strconv.Itoa(i))}
		})
		stands = s.mustHaveOneWinner(stores[0], won, lost)
	}
}

func oneCreates(s *scene) {
	stores := s.opened(3)
	for range 10 {
		won, lost := s.race(stores, func(i int) register.Swap {
			return register.Swap{Key: s.key("k"), Next: register.NewVersion(), Value: []byte(strconv.Itoa(i))}
		})
		s.remove(stores[0], s.mustHaveOneWinner(stores[0], won, lost))
	}
}

func oneReplacesOrDeletes(s *scene) {
	stores := s.opened(3)
	for range 10 {
		old := s.put(stores[0], s.key("k"), register.Version{}, "start").Version
		won, _ := s.race(stores, func(i int) register.Swap {
			if i%2 == 0 {
				return register.Swap{Key: s.key("k"), Old: old}
			}
			return register.Swap{Key: s.key("k"), Old: old, Next: register.NewVersion(), Value: []byte(strconv.Itoa(i))}
		})
		// All who delete succeed if one does: to them it looks like a second try.
		replaced := 0
		for _, it := range won {
			if !it.Version.IsZero() {
				replaced++
			}
		}
		if !(replaced == 0 && len(won) == many/2) && !(replaced == 1 && len(won) == 1) {
			s.Fatalf("%d swaps succeeded, %d of which replace: want one that replaces and no other, or the %d that delete", len(won), replaced, many/2)
		}
		s.stands(stores[1], won[0])
		if replaced == 1 {
			s.remove(stores[0], won[0])
		}
	}
}

func manyCount(s *scene) {
	stores := s.opened(3)
	const each = 10
	var mu sync.Mutex
	given := map[int]int{}
	unanswered := 0 // how many may have counted without knowing it
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			store := stores[i%len(stores)]
			stands, err := store.Read(s.ctx, s.key("k"))
			for n := 0; n < each && err == nil; {
				number, _ := strconv.Atoi(string(stands.Value))
				number++
				var unsure bool
				stands, unsure, err = s.insistKnowing(store, register.Swap{
					Key: s.key("k"), Old: stands.Version, Next: register.NewVersion(), Value: []byte(strconv.Itoa(number)),
				})
				switch {
				case errors.Is(err, register.ErrConflict):
					if err = nil; unsure {
						mu.Lock()
						unanswered++
						mu.Unlock()
					}
				case err == nil:
					n++
					mu.Lock()
					given[number]++
					mu.Unlock()
				}
			}
			if err != nil {
				s.Errorf("%v", err)
			}
		})
	}
	all.Wait()
	got, _ := strconv.Atoi(string(s.read(stores[0], s.key("k")).Value))
	switch {
	case got < many*each:
		s.Errorf("%d swaps counted to %d, and %d had no answer: swaps were overwritten", many*each, got, unanswered)
	case got > many*each+unanswered:
		s.Errorf("%d swaps counted to %d, and %d had no answer: some were applied twice", many*each, got, unanswered)
	}
	for number, times := range given {
		if times > 1 {
			s.Errorf("%d was given %d times: as many swaps from the same version were applied", number, times)
		}
	}
}

// Only one client swaps each register, so there must be no conflict.
func manyRegisters(s *scene) {
	stores := s.opened(3)
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			store, key := stores[i%len(stores)], s.key(fmt.Sprintf("k%d", i))
			var stands register.Item
			for n := range 20 {
				sw := register.Swap{Key: key, Old: stands.Version}
				if n%5 != 4 {
					sw.Next, sw.Value = register.NewVersion(), fmt.Appendf(nil, "%d of %d", n, i)
				}
				var err error
				if stands, err = s.insist(store, sw); err != nil {
					s.Errorf("Swap number %d of a register that nobody else swaps: %v", n, err)
					return
				}
				s.same("what Swap returned", stands, register.Item{Key: key, Version: sw.Next, Value: sw.Value})
				it, err := stores[(i+n)%len(stores)].Read(s.ctx, key)
				if err != nil {
					s.Errorf("Read: %v", err)
				}
				s.same("what Read returned", it, stands)
			}
		})
	}
	all.Wait()
}

func strengthIsConstant(s *scene) {
	a := s.open()
	before := fmt.Sprintf("%#v", a.Strength())
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	_, _ = a.Read(ctx, s.key("k"))
	if after := fmt.Sprintf("%#v", a.Strength()); after != before {
		s.Errorf("the strength was %s, and is %s", before, after)
	}
	if other := fmt.Sprintf("%#v", s.open().Strength()); other != before {
		s.Errorf("the strength of one store is %s, of another %s", before, other)
	}
}
