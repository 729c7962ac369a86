package storekit_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

func TestWhatWasSeenLastIsRemembered(t *testing.T) {
	var seen storekit.Seen[int]
	assert.Zero(t, seen.Of("k"))
	seen.Forget("k")
	seen.Put("k", 5)
	seen.Put("l", 7)
	seen.PutIf("k", 4, func(last int) bool { return 4 >= last })
	assert.Equal(t, 5, seen.Of("k"), "what was overtaken counts for nothing")
	seen.PutIf("k", 6, func(last int) bool { return 6 >= last })
	assert.Equal(t, 6, seen.Of("k"))
	seen.Forget("k")
	assert.Equal(t, [2]int{0, 7}, [2]int{seen.Of("k"), seen.Of("l")})
	seen.Clear()
	assert.Zero(t, seen.Of("l"))
	seen.Put("k", 8)
	assert.Equal(t, 8, seen.Of("k"))
}

func TestNotMoreThanABoundIsRemembered(t *testing.T) {
	var seen storekit.Seen[int]
	for i := 1; i <= 4096; i++ {
		seen.Put(fmt.Sprint(i), i)
	}
	assert.Equal(t, 1, seen.Of("1"))
	seen.Put("one more", 1)
	assert.Equal(t, [2]int{0, 1}, [2]int{seen.Of("1"), seen.Of("one more")})
}

// steady is a register whose server checks what a change expects.
type steady struct {
	cur    register.Item
	at     int // goes up with each write
	looks  int
	tries  int
	writes func() // by somebody else, before each change
}

var errStale = errors.New("something else stands there")

func (s *steady) swap(w register.Swap, last int, seen bool) (register.Item, error) {
	return storekit.Expected[int]{
		Look: func() (register.Item, int, error) {
			s.looks++
			return s.cur, s.at, nil
		},
		Change: func(at int) (register.Item, error) {
			if s.tries++; s.writes != nil {
				s.writes()
			}
			if at != s.at {
				return register.Item{}, errStale
			}
			s.at++
			s.cur = register.Item{Key: w.Key, Value: w.Value, Version: w.Next}
			return s.cur, nil
		},
		Stale: func(err error) bool { return errors.Is(err, errStale) },
	}.Swap(&w, last, seen)
}

func TestASwapGoesByWhatWasSeen(t *testing.T) {
	one, two, three := register.Version{1}, register.Version{2}, register.Version{3}
	item := func(v register.Version) register.Item { return register.Item{Key: "k", Version: v} }
	for name, test := range map[string]struct {
		s            steady
		old, next    register.Version
		last         int
		seen         bool
		want         register.Item
		err          error
		looks, tries int
	}{
		"seen, and so it is":                   {s: steady{cur: item(one), at: 5}, old: one, next: two, last: 5, seen: true, want: item(two), tries: 1},
		"not seen":                             {s: steady{cur: item(one), at: 5}, old: one, next: two, want: item(two), looks: 1, tries: 1},
		"it was written back meanwhile":        {s: steady{cur: item(one), at: 6}, old: one, next: two, last: 5, seen: true, want: item(two), looks: 1, tries: 2},
		"somebody else has swapped it":         {s: steady{cur: item(three), at: 6}, old: one, next: two, last: 5, seen: true, want: item(three), err: register.ErrConflict, looks: 1, tries: 1},
		"an earlier try has":                   {s: steady{cur: item(two), at: 6}, old: one, next: two, last: 5, seen: true, want: item(two), looks: 1, tries: 1},
		"nothing is to be changed":             {s: steady{cur: item(one), at: 5}, old: one, next: one, last: 5, seen: true, want: register.Item{Key: "k"}, looks: 1},
		"nothing is to be changed, and it has": {s: steady{cur: item(two), at: 6}, old: one, next: one, last: 5, seen: true, want: item(two), err: register.ErrConflict, looks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			cur, err := test.s.swap(register.Swap{Key: "k", Old: test.old, Next: test.next}, test.last, test.seen)
			assert.Equal(t, test.err, err)
			assert.Equal(t, test.want, cur)
			assert.Equal(t, [2]int{test.looks, test.tries}, [2]int{test.s.looks, test.s.tries})
		})
	}
}

// Notes go with a change, so a swap that leaves the value as it is makes one, too.
func TestASwapWithNotesAloneIsAChange(t *testing.T) {
	s := steady{cur: register.Item{Key: "k", Version: register.Version{1}}, at: 5}
	w := register.Swap{Key: "k", Old: register.Version{1}, Next: register.Version{1}, Notes: []register.Note{{Topic: "t"}}}
	_, err := s.swap(w, 5, true)
	require.NoError(t, err)
	assert.Equal(t, [2]int{0, 1}, [2]int{s.looks, s.tries})
}

func TestWhoIsAlwaysInTheWayEndsASwap(t *testing.T) {
	s := steady{cur: register.Item{Key: "k", Version: register.Version{1}}, at: 5}
	s.writes = func() { s.at++ }
	_, err := s.swap(register.Swap{Key: "k", Old: register.Version{1}, Next: register.Version{2}}, 5, true)
	assert.ErrorContains(t, err, "changes all the time")
	assert.Equal(t, 20, s.tries)
	assert.Equal(t, register.Version{1}, s.cur.Version)
}

func TestAnErrorThatIsNoRefusalEndsASwap(t *testing.T) {
	lost := errors.New("lost")
	tries := 0
	_, err := storekit.Expected[int]{
		Look:   func() (register.Item, int, error) { t.Fatal("its outcome is open"); return register.Item{}, 0, nil },
		Change: func(int) (register.Item, error) { tries++; return register.Item{}, lost },
		Stale:  func(err error) bool { return err != lost },
	}.Swap(&register.Swap{Key: "k", Next: register.Version{1}}, 0, true)
	assert.Equal(t, lost, err)
	assert.Equal(t, 1, tries)
}
