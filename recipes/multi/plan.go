package multi

import "slices"

// state is how it stands with one of the lines.
type state byte

const (
	away    state = iota
	asks          // it is about to stand there, and does not know yet whether it has to wait
	waits         //
	leaving       // it steps back
	held
)

// plan says, given how it stands with each line in order, in which lines to ask now, and from which to step back.
//
// The first plan is to ask in all. Once it waits somewhere it goes from all lines behind that one, held or not. Whoever waits in
// a line then holds only lines before it, so there is no circle. It comes back one line at a time: to ask in all again would be
// in vain more often than not, and places in later lines would be given up again and again.
func plan(states []state) (ask, back []int) {
	if !slices.ContainsFunc(states, func(s state) bool { return s != away }) {
		for i := range states {
			ask = append(ask, i)
		}
		return ask, nil
	}
	if first := slices.Index(states, waits); first >= 0 {
		for i := first + 1; i < len(states); i++ {
			if states[i] != away && states[i] != leaving {
				back = append(back, i)
			}
		}
		return nil, back
	}
	if next := slices.IndexFunc(states, func(s state) bool { return s != held }); next >= 0 && states[next] == away {
		ask = append(ask, next)
	}
	return ask, nil
}
