package rules

import (
	"math"

	"github.com/turnwise/turnwise/coord/driver"
)

// Turns reports for each node of a line, in order, whether it is its turn by the rule of its kind. It goes through the
// line once: asking each node's rule takes long for a long line.
func Turns(line []driver.Node) []bool {
	turns := make([]bool, len(line))
	onlyReaders := true
	// Of this node and those ahead:
	weights, fewest, fits := int64(0), int64(math.MaxInt64), true
	for i, n := range line {
		weight, permits := parsePermits(n.Kind)
		fewest = min(fewest, permits)
		if fits = fits && weight <= fewest-weights; fits { // the sum may overflow
			weights += weight
		}
		switch {
		case i == 0:
			turns[i] = true
		case n.Kind == Reader:
			turns[i] = onlyReaders
		case IsPermits(n.Kind):
			turns[i] = fits
		}
		onlyReaders = onlyReaders && n.Kind == Reader
	}
	return turns
}
