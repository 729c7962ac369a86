// Package rules holds what makes one recipe different from another: given the nodes ahead of me, which do I wait for?
// The rules are pure functions, so that verify/model can walk every interleaving of them.
//
//	mutex, election    nobody may be ahead            else wait for the node right ahead
//	reader             no writer may be ahead         else wait for the nearest writer
//	semaphore          the weights must fit           else wait for any of the nearest that do not fit;
//	                                                  of many permits: for the node right ahead to have its turn
//
// No rule ever turns from "my turn" back to "wait": nobody joins ahead of me. A kind that a rule does not know counts
// as exclusive.
package rules

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/turnwise/turnwise/coord/driver"
)

// The kinds of the recipes. A semaphore's kind is made by Permits.
const (
	Lock   = "lock"
	Lead   = "lead"
	Reader = "R"
	Writer = "W"
)

// WaitFor is the type of a rule. It returns the nodes to wait for: until one of them goes, there is no point in looking
// again. If there are none, it is my turn. ahead is in order, the nearest last.
type WaitFor func(me driver.Node, ahead []driver.Node) []driver.Node

// Exclusive lets me in when nobody is ahead.
func Exclusive(_ driver.Node, ahead []driver.Node) []driver.Node {
	if len(ahead) == 0 {
		return nil
	}
	return ahead[len(ahead)-1:]
}

// Shared lets me in when everybody ahead is a reader too.
func Shared(_ driver.Node, ahead []driver.Node) []driver.Node {
	for i := len(ahead) - 1; i >= 0; i-- {
		if ahead[i].Kind != Reader {
			return ahead[i : i+1]
		}
	}
	return nil
}

// Few is the number of awaited nodes up to which a watch on each costs less than one on the whole line. So up to Few
// permits, a semaphore uses weight sets alone; see Weighted.
const Few = 8

// Permits returns the kind of a node that asks for weight of the line's permits: S for a few permits, Q for many.
func Permits(weight, permits int64) string {
	form := "S"
	if permits > Few {
		form = "Q"
	}
	return form + strconv.FormatInt(weight, 10) + "of" + strconv.FormatInt(permits, 10)
}

// CheckPermits returns an error if nobody can have that many of the permits.
func CheckPermits(weight, permits int64) error {
	switch {
	case permits <= 0:
		return fmt.Errorf("a semaphore with %d permits", permits)
	case weight <= 0:
		return fmt.Errorf("%d permits asked for", weight)
	case weight > permits:
		return fmt.Errorf("%d permits asked for, and there are only %d", weight, permits)
	}
	return nil
}

// Granted returns the kind that a node takes on when it gets its turn after a wait, so that the one behind looks again.
// It is empty for most kinds: they do not change.
func Granted(kind string) string {
	if announces(kind) {
		return "G" + kind[1:]
	}
	return ""
}

func announces(kind string) bool { return IsPermits(kind) && kind[0] == 'Q' }

// Weighted lets me in when my weight and those of the nodes ahead fit into the permits. The number of permits is the
// smallest that any of us states, since it may change while a deployment rolls.
//
// Otherwise I wait for any of the nearest whose weights, with mine, do not fit: a weight set. While all of them stand,
// there is no room for me, whatever those further ahead do; and once there is room, one of them has gone.
//
// With n permits, each waiter awaits up to n nodes, and each permit that is given back wakes up to n waiters, of which
// one may enter. So with many permits, only the first waiter looks out for room. Every other one waits for the node
// right ahead to go, or to say that it is granted, which that node does if it had to wait. If it did not have to wait,
// its own join granted it; any look of mine is later than that, and shows that it fits.
func Weighted(me driver.Node, ahead []driver.Node) []driver.Node {
	wait := weightSet(me, ahead)
	if len(wait) == 0 {
		return nil
	}
	last := len(ahead) - 1
	if announces(ahead[last].Kind) && len(weightSet(ahead[last], ahead[:last])) > 0 {
		return ahead[last:]
	}
	return wait
}

// Sight returns what the rule of a kind needs to see of the nodes ahead.
//
// Weighted needs as many of the nearest as there are permits, and one more. Each weighs at least one, so that many leave no
// room for me, and the one more shows that the nearest of them has no room either.
func Sight(kind string) driver.Sight {
	switch _, permits, weighted := permitsOf(kind); {
	case weighted:
		return driver.Sight{Nearest: int(min(permits, math.MaxInt-1)) + 1}
	case kind == Reader:
		return driver.Sight{Ignore: []string{Reader}}
	}
	return driver.Sight{}
}

func weightSet(me driver.Node, ahead []driver.Node) []driver.Node {
	sum, permits := parsePermits(me.Kind)
	for i := len(ahead) - 1; i >= 0; i-- {
		w, p := parsePermits(ahead[i].Kind)
		permits = min(permits, p)
		if sum > permits || w > permits-sum { // sum+w may overflow
			return ahead[i:]
		}
		sum += w
	}
	return nil
}

// parsePermits takes a semaphore's kind apart. Any other kind weighs as much as possible.
func parsePermits(kind string) (weight, permits int64) {
	weight, permits, ok := permitsOf(kind)
	if !ok {
		return math.MaxInt64, math.MaxInt64
	}
	return weight, permits
}

func permitsOf(kind string) (weight, permits int64, ok bool) {
	if len(kind) == 0 || strings.IndexByte("SQG", kind[0]) < 0 {
		return 0, 0, false
	}
	w, p, ok := strings.Cut(kind[1:], "of")
	if !ok {
		return 0, 0, false
	}
	weight, err1 := strconv.ParseInt(w, 10, 64)
	permits, err2 := strconv.ParseInt(p, 10, 64)
	return weight, permits, err1 == nil && err2 == nil && weight > 0 && permits > 0
}

// For returns the rule that contenders of a kind follow, as far as the kind tells.
func For(kind string) WaitFor {
	switch {
	case kind == Reader:
		return Shared
	case IsPermits(kind):
		return Weighted
	default:
		return Exclusive
	}
}

// IsKnown reports whether a kind is a recipe's. Of any other, only its own rule knows for whom it waits.
func IsKnown(kind string) bool {
	switch kind {
	case Lock, Lead, Reader, Writer:
		return true
	}
	return IsPermits(kind)
}

// Covers reports whether a hold of kind held includes everything that kind asked needs.
func Covers(held, asked string) bool {
	return held == asked || held == Lock || held == Writer || held == Lead
}

// IsPermits reports whether kind is one of a semaphore's.
func IsPermits(kind string) bool {
	_, _, ok := permitsOf(kind)
	return ok
}
