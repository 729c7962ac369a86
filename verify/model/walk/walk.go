// Package walk walks through every state that a model can get into, the nearest first.
package walk

import (
	"strings"
	"testing"
)

// Move is one thing that can happen next.
type Move[S comparable] struct {
	State S // after it
	What  string
	Sure  bool   // it will happen some time; nobody needs to choose it
	Bad   string // what is wrong with that; "": nothing
}

// Result is what a walk has found.
type Result struct {
	States int
	Fault  string   // "": none
	Trace  []string // the shortest way to the fault
}

// String is the fault and the way to it; "": there is none.
func (r Result) String() string {
	if r.Fault == "" {
		return ""
	}
	return r.Fault + "\n  " + strings.Join(r.Trace, "\n  ")
}

// ToTheEnd is Search for a test, which fails if there were too many states. It returns the fault and the way to it; "": there is none.
func ToTheEnd[S comparable](t testing.TB, first S, moves func(S) []Move[S], stuck func(*S) string, limit int) string {
	t.Helper()
	r, whole := Search(first, moves, stuck, limit)
	if !whole {
		t.Errorf("not walked to the end: %d states", r.States)
	}
	t.Logf("%d states", r.States)
	return r.String()
}

// Search walks from the first state on, through no more states than limit. stuck says what is wrong with a state in which
// nothing is sure to happen any more.
func Search[S comparable](first S, moves func(S) []Move[S], stuck func(*S) string, limit int) (r Result, whole bool) {
	type step struct {
		from int32
		what string
	}
	seen := map[S]struct{}{first: {}}
	queue, steps := []S{first}, []step{{-1, ""}}
	words := make(map[string]string) // each is kept once
	fault := func(at int, last, what string) (Result, bool) {
		var trace []string
		for i := int32(at); i > 0; i = steps[i].from {
			trace = append([]string{steps[i].what}, trace...)
		}
		if last != "" {
			trace = append(trace, last)
		}
		return Result{len(queue), what, trace}, true
	}
	for at := 0; at < len(queue); at++ {
		if len(queue) > limit {
			return Result{States: len(queue)}, false
		}
		all := moves(queue[at])
		restless := false
		for _, m := range all {
			if m.Bad != "" {
				return fault(at, m.What, m.Bad)
			}
			restless = restless || m.Sure
		}
		if !restless {
			if bad := stuck(&queue[at]); bad != "" {
				return fault(at, "", bad)
			}
		}
		for _, m := range all {
			if _, known := seen[m.State]; known {
				continue
			}
			seen[m.State] = struct{}{}
			what, known := words[m.What]
			if !known {
				what, words[m.What] = m.What, m.What
			}
			queue = append(queue, m.State)
			steps = append(steps, step{int32(at), what})
		}
	}
	return Result{States: len(queue)}, true
}
