package barrier

import (
	"slices"

	"github.com/turnwise/turnwise/coord"
)

// place is one who stands at the barrier. What it does next depends on nothing but this and what it sees: a model walks through all that
// may happen.
type place struct {
	size   int
	me     coord.Token
	before int // how many stood before it when it looked last; -1: it has not looked
}

type step int

const (
	waits    step = iota // for another view
	goesOn               // its round has begun
	asks                 // which round has begun last
	confirms             // that it still stands there: then it was counted
	begins               // the next round
)

func (p *place) at(all []coord.Node) int {
	return slices.IndexFunc(all, func(n coord.Node) bool { return n.Token == p.me })
}

// sees says what to do after a look.
func (p *place) sees(all []coord.Node) (step, round) {
	at := p.at(all)
	if at < 0 {
		return waits, round{} // our hold will soon hear of it
	}
	for _, n := range all {
		if r := parseMark(n.Data).begun; r.reaches(p.me) {
			return goesOn, r
		}
	}
	looked, gone := p.before >= 0, at < p.before // who has gone from before me has perhaps gone on
	p.before = at
	if !looked || gone || p.mayBegin(all) {
		return asks, round{}
	}
	return waits, round{}
}

// hears says what to do when it knows which round has begun last. all is what it has seen before it asked.
func (p *place) hears(latest round, all []coord.Node) (step, round) {
	switch {
	case latest.reaches(p.me):
		return confirms, latest
	case p.mayBegin(all):
		return begins, round{latest.number + 1, all[p.size-1].Token}
	}
	return waits, round{}
}

// mayBegin reports whether it is first in line, and enough have come. One among them who says another number, or who stands there for
// another recipe, would not go on with the others: it is not counted, and nobody can be counted past it.
func (p *place) mayBegin(all []coord.Node) bool { return p.at(all) == 0 && p.came(all) >= p.size }

// came is how many have come up to the first who does not wait for the same number.
func (p *place) came(all []coord.Node) int {
	if other := slices.IndexFunc(all, func(n coord.Node) bool { return parseMark(n.Data).size != p.size }); other >= 0 {
		return other
	}
	return len(all)
}
