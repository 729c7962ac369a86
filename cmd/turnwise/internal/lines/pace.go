package lines

import (
	"time"

	"github.com/turnwise/turnwise/coord"
)

// pace is how fast a line has moved while somebody waited in it. What happens while nobody waits says nothing about that.
type pace struct {
	steps []step
}

// step is what happened between two readings.
type step struct {
	at   time.Time // of the second one
	took time.Duration
	done int // how many turns ended
}

const (
	paceOver  = 10 * time.Minute
	paceGap   = 2 * time.Minute // readings further apart than this say nothing
	paceSteps = 600
	fewTurns  = 3 // how many a guess needs
)

// observe compares a line with its previous reading.
func (p *pace) observe(before []coord.Node, then time.Time, now []coord.Node, at time.Time) {
	waited := false
	for _, n := range before {
		waited = waited || !n.Holds
	}
	if !waited || then.IsZero() || at.Sub(then) > paceGap {
		return
	}
	there := make(map[coord.Token]bool, len(now))
	var last coord.Token // of those who hold now
	for _, n := range now {
		there[n.Token] = true
		if n.Holds {
			last = max(last, n.Token)
		}
	}
	done := 0
	for _, n := range before {
		if !there[n.Token] && (n.Holds || n.Token < last) { // otherwise it has given up
			done++
		}
	}
	p.steps = append(p.steps, step{at, at.Sub(then), done})
	for len(p.steps) > 0 && (at.Sub(p.steps[0].at) > paceOver || len(p.steps) > paceSteps) {
		p.steps = p.steps[1:]
	}
}

// turn returns how long the next in line waited for its turn, on average.
func (p *pace) turn() (time.Duration, bool) {
	var took time.Duration
	done := 0
	for _, s := range p.steps {
		took += s.took
		done += s.done
	}
	if done < fewTurns {
		return 0, false
	}
	return took / time.Duration(done), true
}

// roundly returns a guess in seconds, no more precise than it deserves, and at least 1: zero would say that nothing is
// known.
func roundly(d time.Duration) int {
	unit := time.Second
	switch {
	case d > time.Hour:
		unit = 10 * time.Minute
	case d > 10*time.Minute:
		unit = time.Minute
	case d > time.Minute:
		unit = 10 * time.Second
	case d > 10*time.Second:
		unit = 5 * time.Second
	}
	return max(1, int(d.Round(unit)/time.Second))
}
