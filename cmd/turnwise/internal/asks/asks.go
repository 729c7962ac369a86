// Package asks says whom a 'turnwise ask' asks to let go. An ask stands in the line, and whoever gets his turn ahead of it would find
// himself asked as well: he, perhaps, for whom somebody asks.
package asks

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// head is what the data of an ask begins with. The tokens of those who are asked follow, each behind a space.
const head = "asks"

// most bounds the data. More than that are not named: all who are ahead are asked.
const most = 4 << 10

// Of returns the data of an ask of those with these tokens.
func Of(tokens []coord.Token) []byte {
	var b bytes.Buffer
	b.WriteString(head)
	for _, t := range tokens {
		fmt.Fprintf(&b, " %d", t)
	}
	if b.Len() > most {
		return nil
	}
	return b.Bytes()
}

// Note is what a node asks those ahead to let go for. Who holds wants nothing more, whatever his node still says.
func Note(n coord.Node) string {
	if n.Holds {
		return ""
	}
	return n.Asks
}

// Reaches reports whether a node asks the one with this token to let go.
func Reaches(n coord.Node, token coord.Token) bool {
	if Note(n) == "" {
		return false
	}
	return !names(n) || slices.Contains(strings.Fields(string(n.Data)), fmt.Sprint(token))
}

// names reports whether a node says whom it asks.
func names(n coord.Node) bool {
	return n.Asks != "" && n.Kind == rules.Lock && bytes.HasPrefix(n.Data, []byte(head+" "))
}

// Value is the data of a node that people want to see.
func Value(n coord.Node) string {
	if names(n) {
		return ""
	}
	return string(n.Data)
}
