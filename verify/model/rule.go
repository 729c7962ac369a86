package model

import (
	"strings"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// asked is a question to a rule, whose answer is kept: the same is asked millions of times.
type asked struct {
	line line
	who  int
}

// waitFor asks the rule that ships whom contender i waits for, in a line as seen.
func (m *machine) waitFor(l line, i int) byte {
	l.standing &= bit(i) - 1 // those ahead
	l.downgraded &= bit(i+1) - 1
	if wait, known := m.rules[asked{l, i}]; known {
		return wait
	}
	var ahead []driver.Node
	for j := range i {
		if l.standing&bit(j) != 0 {
			ahead = append(ahead, m.node(l, j))
		}
	}
	me := m.node(l, i)
	rule := rules.For(me.Kind)
	if other := m.WaitFor[me.Kind]; other != nil {
		rule = other
	}
	var wait byte
	for _, n := range rule(me, ahead) {
		wait |= bit(int(n.Token))
	}
	m.rules[asked{l, i}] = wait
	return wait
}

func (m *machine) node(l line, i int) driver.Node {
	return driver.Node{Kind: m.kind(l, i), Token: driver.Token(i)}
}

func (m *machine) kind(l line, i int) string {
	if l.downgraded&bit(i) != 0 {
		if granted := rules.Granted(m.Kinds[i]); granted != "" {
			return granted
		}
		return rules.Reader
	}
	return m.Kinds[i]
}

// trusted reports whether others take the mark of such a node; nobody else writes to it.
func trusted(kind string) bool { return kind == rules.Lock || kind == rules.Writer }

// conflict is the judge's view of who may hold together. It does not ask the rules.
func (m *machine) conflict(holders []int, l line) string {
	var out, least int64 = 0, 1 << 40
	for x, i := range holders {
		a := m.kind(l, i)
		for _, j := range holders[:x] {
			b := m.kind(l, j)
			bothRead := a == "R" && b == "R"
			bothPermits := permits(a) && permits(b)
			if !bothRead && !bothPermits {
				return "two hold that must not"
			}
		}
		if permits(a) {
			out += int64(a[1] - '0')
			least = min(least, int64(a[4]-'0'))
			if out > least {
				return "too many permits are out"
			}
		}
	}
	return ""
}

func permits(kind string) bool { return strings.IndexByte("SQG", kind[0]) >= 0 }
