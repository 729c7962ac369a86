package quorum

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// A ballot orders what is proposed for a register: 16 digits that count and 16 that tell rounds apart. They are digits
// because Lua compares texts by the rules of the server's language.
type ballot struct{ count, round uint64 }

const (
	ballotSize = 32
	ballotEnd  = 1e15 // a Lua number holds more than this exactly
)

func newBallot(count uint64) ballot { return ballot{count, 1 + rand.Uint64N(ballotEnd)} }

// next is the ballot that an acceptor promises together with what it accepts.
func (b ballot) next() ballot { return ballot{b.count + 1, b.round} }

func (b ballot) String() string { return fmt.Sprintf("%016d%016d", b.count, b.round) }

func parseBallot(s string) (b ballot) {
	if len(s) >= ballotSize {
		b.count, _ = strconv.ParseUint(s[:16], 10, 64)
		b.round, _ = strconv.ParseUint(s[16:ballotSize], 10, 64)
	}
	return b
}

// isPossible reports whether rounds can have come to that. With a higher one, nobody would have a ballot left.
func (b ballot) isPossible() bool { return b.count < ballotEnd }

// firstUnlikely is where those ballots begin to which rounds do not come in years. No floor rises so far by itself: see gone.
var firstUnlikely = ballot{count: ballotEnd / 10}

func (b ballot) isLikely() bool { return b.less(firstUnlikely) }

func (b ballot) less(c ballot) bool { return b.compare(c) < 0 }

func (b ballot) compare(c ballot) int {
	return cmp.Or(cmp.Compare(b.count, c.count), cmp.Compare(b.round, c.round))
}
