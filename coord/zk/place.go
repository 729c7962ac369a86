package zk

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

// place is a contender of ours in a line.
type place struct {
	session *session
	dir     string
	sight   driver.Sight
	last    bool // nobody stood behind it when it joined

	mu      sync.Mutex
	node    driver.Node
	paths   []string // of the node, the present one last; more than one while it is being amended
	made    int64    // a transaction no older than the one that made the present one
	asOf    int64    // it has seen what happened up to this transaction
	nearest string   // the path of the nearest one ahead within sight, as of the last look
	only    bool     // that one was the only one
}

// gone is called when the node is surely not in line any more.
func (p *place) gone() { p.session.roster.drop(p) }

func (p *place) Node() driver.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node
}

func (p *place) Last() bool { return p.last }

func (p *place) allPaths() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.paths)
}

func (p *place) presentPath() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paths[len(p.paths)-1]
}

// letsIn reports whether it is my turn when a node has left. The service does not tell why it went, and a node may give
// up. So that is so only if it was the only one ahead, or a holder of this session with nobody ahead.
func (p *place) letsIn(nodePath string, handsOver bool) bool {
	c, _ := parseContender(path.Base(nodePath))
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nearest == nodePath && (p.only || handsOver) && c.amendedByWriting()
}

// seen returns up to which transaction the place knows what happened ahead of it, and to its own node.
func (p *place) seen() (ahead, own int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asOf, max(p.asOf, p.made)
}

// pick picks from a list those ahead of me within sight; found is false if I am not in the list. If the nearest
// is enough, it is found without sorting, and most names are not taken apart: a list may be long, and everybody who joins
// looks through one.
func (p *place) pick(l *wire.Listing) (ahead []driver.Node, last, found bool) {
	line, mine := p.Node().Line, p.allPaths()
	me, _ := parseContender(path.Base(mine[0])) // the number is the same in all
	var chosen []listed
	inSight := 0
	last = true
	var nearer, farther uint32 // the ranks of the nearest two, once there are two within sight
	for _, name := range l.Names {
		_, seq, _ := cutNumber(name)
		if rank := uint32(seq); !last && rank > me.rank() || inSight > 1 && rank < farther && p.sight.Depth() == 1 {
			continue
		}
		c, ok := parseContender(name)
		switch {
		case !ok:
		case c.seq == me.seq && slices.Contains(mine, p.dir+"/"+name):
			found = true
		case c.rank() > me.rank():
			last = false
		case !p.sight.Sees(c.kind):
		default:
			inSight++
			nearer, farther = max(nearer, c.rank()), max(farther, min(nearer, c.rank()))
			if other := (listed{c, name}); inSight == 1 || p.sight.Depth() > 1 {
				chosen = append(chosen, other)
			} else if compareListed(other, chosen[0]) > 0 {
				chosen[0] = other
			}
		}
	}
	if !found {
		return nil, false, false
	}
	slices.SortFunc(chosen, compareListed)
	for _, c := range chosen[max(0, len(chosen)-p.sight.Depth()):] {
		ahead = append(ahead, c.node(line, p.dir, l.Born))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nearest, p.only, p.asOf = "", inSight == 1, l.AsOf
	if n := len(ahead); n > 0 {
		p.nearest = ahead[n-1].ID
	}
	return ahead, last, true
}

// listed is a contender with its name as it stands in a list.
type listed struct {
	contender
	name string
}

func compareListed(a, b listed) int {
	if a.seq != b.seq {
		return cmp.Compare(a.rank(), b.rank())
	}
	return strings.Compare(a.name, b.name)
}

// node is the contender as the engine knows it, with its token; see the package comment.
func (l listed) node(line, dir string, born int64) driver.Node {
	return driver.Node{Line: line, ID: dir + "/" + l.name, Kind: l.kind, Token: token(born, l.contender)}
}

func token(born int64, c contender) driver.Token { return driver.Token(born + int64(c.rank())) }

// contenders returns the contenders among a directory's children, in order.
func contenders(children []string) []listed {
	all := make([]listed, 0, len(children))
	for _, name := range children {
		if c, ok := parseContender(name); ok {
			all = append(all, listed{c, name})
		}
	}
	slices.SortFunc(all, compareListed)
	return all
}

// twins returns the names that nodes made for one join have, the first in line first.
func (c contender) twins(names []string) (twins []string) {
	prefix := c.prefix()
	var made []string
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			made = append(made, name)
		}
	}
	for _, l := range contenders(made) {
		twins = append(twins, l.name)
	}
	return twins
}

// amendedIn reports whether a contender that has gone stands in a list under another name, with the same number.
func amendedIn(names []string, name string) bool {
	gone, ok := parseContender(name)
	return ok && slices.ContainsFunc(names, func(other string) bool {
		if !strings.HasSuffix(other, name[len(name)-10:]) || other == name {
			return false
		}
		c, ok := parseContender(other)
		return ok && c.seq == gone.seq
	})
}
