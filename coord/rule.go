package coord

import (
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// These are the types that this package shares with its drivers.
type (
	// Token is a place in a line, and the fencing token of whoever holds there. Tokens strictly increase along a line,
	// forever.
	Token = driver.Token

	// Node is one contender in a line.
	Node = driver.Node

	// Owner says who put a node into a line.
	Owner = driver.Owner

	// Sight says which of the nodes ahead a rule needs to see.
	Sight = driver.Sight
)

// All is the Sight.Nearest of a rule that must see everybody ahead.
const All = driver.All

// TurnBits is by how many bits the tokens that users see are shifted left from the numbers that the service gives:
// etcd's create revision r becomes the token r<<TurnBits. The low bits are for turns that goroutines of one process
// pass among themselves on one node. A rule sees the service's own numbers, since it is about places only.
const TurnBits = 8

// Rule is what makes a recipe: it looks at the nodes ahead and decides whether it is my turn.
//
// Once a rule says that I need not wait, it must never say "wait" again while I stand in line. Nobody joins ahead of
// me, so this is true of every rule that does not become stricter when a node ahead leaves. A rule should treat a kind
// that it does not know as exclusive.
type Rule struct {
	// Sight is what WaitFor needs to see; it may be shown more. The zero Sight shows the nearest node.
	Sight Sight

	// WaitFor gets the nodes ahead, in order, the nearest last. It returns those to wait for: until one of them goes, or
	// changes its kind, there is no point in looking again. If it returns none, it is my turn. It must be a pure function,
	// and decide by the kinds: those ahead may be shown without Owner and Data, and in a try I have no ID and no Token yet.
	//
	// If the kind is none of a recipe's, coord/register (so coord/mem and all stores) tells all such nodes behind one that has
	// gone or changed, 64 at most. So in a line of many more, a rule that waits for somebody far ahead has its turn seconds late.
	WaitFor func(me Node, ahead []Node) []Node

	// Granted is the kind that the node takes on when its turn comes, unless the turn came with the join and nobody is
	// behind. It is for rules by which others wait for my turn rather than for my departure. If it is empty, the node
	// keeps its kind.
	Granted string
}

// RuleOf returns the rule that contenders of a kind follow: that of the recipe whose kind it is, and otherwise that nobody may
// be ahead.
func RuleOf(kind string) Rule {
	return Rule{WaitFor: rules.For(kind), Sight: rules.Sight(kind), Granted: rules.Granted(kind)}
}
