package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// A move is one step in the history of a line, as a counter of permits sees it.
type move struct {
	what   moved
	weight int64
	limit  int64
}

type moved string

const (
	joins  moved = "joins"  // a node comes
	enters moved = "enters" // it is granted its permits
	leaves moved = "leaves" // it gives them back or loses them, and goes
	quits  moved = "quits"  // a node that was never granted goes
	finds  moved = "finds"  // a try finds too few permits left
)

// occupied is the state of a line.
type occupied struct{ granted, standing int64 }

// counter says what may follow what. A mutex is a counter of one permit.
var counter = porcupine.Model{
	Init: func() any { return occupied{} },
	Step: func(state, input, _ any) (bool, any) {
		o, m := state.(occupied), input.(move)
		switch m.what {
		case enters:
			o.granted += m.weight
			return o.granted <= min(m.limit, o.standing), o
		case leaves:
			o.granted -= m.weight
			o.standing -= m.weight
			return o.granted >= 0 && o.standing >= o.granted, o
		case joins:
			o.standing += m.weight
			return true, o
		case quits:
			o.standing -= m.weight
			return o.standing >= o.granted, o
		default:
			return o.standing+m.weight > m.limit, o
		}
	},
	DescribeOperation: func(input, _ any) string { m := input.(move); return fmt.Sprint(m.what, " ", m.weight) },
	DescribeState:     func(state any) string { o := state.(occupied); return fmt.Sprintf("%d of %d", o.granted, o.standing) },
}

// history returns what happened in a line, each step with the earliest and the latest time at which it can have happened.
// The service's own history tells when nodes came and went; the workers tell what was granted and what was found busy.
func history(e *evidence, line string, limit int64) []porcupine.Operation {
	var all []porcupine.Operation
	add := func(who int, from, to time.Duration, what moved, weight int64) {
		all = append(all, porcupine.Operation{ClientId: who, Call: int64(from), Return: int64(max(from, to)), Input: move{what, weight, limit}})
	}
	nodes := map[string]*standing{}
	for _, s := range e.truth.nodes {
		if s.line == line {
			nodes[s.node] = s
		}
	}
	for _, a := range e.attempts {
		switch s := nodes[a.node]; {
		case a.line != line:
		case a.outcome == busy:
			add(a.worker, max(0, a.wanted-e.stale), a.ended, finds, weight(a.kind))
		case a.granted > 0 && s != nil:
			delete(nodes, a.node)
			add(a.worker, max(a.wanted, e.truth.notBefore(s.born)), min(a.granted, e.truth.notAfter(s.born)), joins, weight(a.kind))
			add(a.worker, a.wanted, a.granted, enters, weight(a.kind))
			add(a.worker, min(a.believed, e.truth.notBefore(s.gone)), e.truth.notAfter(s.gone), leaves, weight(a.kind))
		}
	}
	for _, s := range nodes {
		add(0, e.truth.notBefore(s.born), e.truth.notAfter(s.born), joins, weight(s.kind))
		add(0, e.truth.notBefore(s.gone), e.truth.notAfter(s.gone), quits, weight(s.kind))
	}
	return all
}

// counted lists the lines whose histories are checked, and how many permits each has.
var counted = map[string]int64{"mutex": 1, "try-mutex": 1, "election": 1, "semaphore": permits, "try-semaphore": permits}

// A reading is the result of checking one history.
type reading struct {
	line   string
	length int
	result porcupine.CheckResult
	broken string // the steps up to the one that is impossible
}

func readHistories(e *evidence) []reading {
	var all []reading
	for line, limit := range counted {
		h := history(e, line, limit)
		result, info := porcupine.CheckOperationsVerbose(counter, h, 10*time.Second) // what takes longer takes for ever
		r := reading{line: line, length: len(h), result: result}
		if result == porcupine.Illegal {
			r.broken = dead(h, info)
		}
		all = append(all, r)
	}
	return all
}

// dead shows where the longest attempt at putting a history in order got stuck, and the steps that had to come next.
func dead(h []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []int // none: no step can have been the first
	for _, some := range info.PartialLinearizations()[0] {
		if len(some) > len(longest) {
			longest = some
		}
	}
	placed := map[int]bool{}
	state := counter.Init()
	var text strings.Builder
	for i, id := range longest {
		placed[id] = true
		_, state = counter.Step(state, h[id].Input, nil)
		if i > len(longest)-25 {
			fmt.Fprintf(&text, "\n  %v leads to %s", step(h[id]), counter.DescribeState(state))
		}
	}
	var left []porcupine.Operation
	for id, o := range h {
		if !placed[id] {
			left = append(left, o)
		}
	}
	slices.SortFunc(left, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	for _, o := range left[:min(6, len(left))] {
		fmt.Fprintf(&text, "\n  and now? %v", step(o))
	}
	return text.String()
}

func step(o porcupine.Operation) string {
	return fmt.Sprintf("%v to %v: worker %d %s", time.Duration(o.Call), time.Duration(o.Return), o.ClientId, counter.DescribeOperation(o.Input, nil))
}
