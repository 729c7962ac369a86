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
	paths   []string   // of the node, the present one last; more than one while it is being amended
	made    int64      // a transaction no older than the one that made the present path
	open    bool       // an amendment had no answer, and none has succeeded since
	version int32      // of the node: how often it has been written
	memo    memo       // the line's, as last written here
	asOf    int64      // it has seen what happened up to this transaction
	by      *wire.Conn // the last look was made on this connection
	nearest string     // the path of the nearest one ahead within sight, as of that look
	only    bool       // nearest was the only one
	second  string     // the path of the one ahead of nearest, if it is likely to leave first
}

// gone is called when the node is surely not in line any more.
func (p *place) gone() { p.session.roster.remove(p) }

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

// letsIn reports whether it is my turn once a node has left. The service does not say why it went: it may have given up
// while others still stand ahead. So it is my turn only if it was the only one ahead, or a holder of this session with
// nobody ahead. What was seen on another connection tells nothing: a backup that was put back since may have brought back
// some who had gone.
func (p *place) letsIn(nodePath string, handsOver bool) bool {
	c, _ := parseContender(path.Base(nodePath))
	knows := p.saw()
	p.mu.Lock()
	defer p.mu.Unlock()
	return knows && p.nearest == nodePath && (p.only || handsOver) && c.amendedByWriting()
}

// saw reports whether the last look was made on the present connection.
func (p *place) saw() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.by == p.session.usable.Load()
}

// aheadOf returns the path of the one ahead of the nearest, if that is the nearest and they are likely to leave in turn.
func (p *place) aheadOf(nearest string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.nearest != nearest {
		return ""
	}
	return p.second
}

// seen returns the transactions up to which the place knows what happened ahead of it, and to its own node.
func (p *place) seen() (ahead, own int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asOf, max(p.asOf, p.made)
}

// pick picks from a list those ahead of me within sight; found is false if I am not in the list.
func (p *place) pick(l *wire.Listing) (ahead []driver.Node, last, found bool) {
	line, mine := p.Node().Line, p.allPaths()
	me, _ := parseContender(path.Base(mine[0])) // all have the same number
	c := choose(l.Names, p.sight, me, func(name string) bool { return slices.Contains(mine, p.dir+"/"+name) })
	if !c.me {
		return nil, false, false
	}
	nearest, second := "", ""
	if n := len(c.ahead); n > 0 {
		nearest = p.dir + "/" + c.ahead[n-1].name
		if n > 1 && c.ahead[n-1].inTurn() && c.ahead[n-2].inTurn() {
			second = p.dir + "/" + c.ahead[n-2].name
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nearest, p.second, p.only, p.asOf, p.by = nearest, second, c.inSight == 1, l.AsOf, l.By
	return c.nodes(line, p.dir, l.Born, p.sight), !c.behind, true
}

// choice is what a list shows to somebody who stands in it, or who would be next.
type choice struct {
	ahead   []listed // within sight, in order: all of them or, if the nearest is enough, the nearest two
	inSight int      // how many are within sight
	me      bool     // is in the list
	behind  bool     // somebody stands behind me
}

// behindAll is the last number; see rank.
const behindAll = -1

// choose goes through a list. If the nearest is enough, it is found without sorting, and most names are not taken apart:
// a list may be long, and every join goes through one. mine tells which of those with my number are me.
func choose(names []string, sight driver.Sight, me contender, mine func(name string) bool) (c choice) {
	var farther uint32 // the lower rank of those chosen
	for _, name := range names {
		_, seq, _ := cutNumber(name)
		if rank := uint32(seq); c.behind && rank > me.rank() || sight.Depth() == 1 && len(c.ahead) > 1 && rank < farther {
			continue
		}
		n, ok := parseContender(name)
		switch {
		case !ok:
		case n.seq == me.seq && mine(name):
			c.me = true
		case n.rank() > me.rank():
			c.behind = true
		case !sight.Sees(n.kind):
		default:
			c.inSight++
			c.ahead = append(c.ahead, listed{n, name})
			if sight.Depth() == 1 {
				c.ahead = nearestTwo(c.ahead)
				farther = min(c.ahead[0].rank(), c.ahead[len(c.ahead)-1].rank())
			}
		}
	}
	slices.SortFunc(c.ahead, compareListed)
	return c
}

// nodes returns those ahead as the engine knows them, no more than the sight asks for.
func (c choice) nodes(line, dir string, born int64, sight driver.Sight) (ahead []driver.Node) {
	for _, n := range c.ahead[max(0, len(c.ahead)-sight.Depth()):] {
		ahead = append(ahead, n.node(line, dir, born))
	}
	return ahead
}

// nearestTwo drops the first in line of three.
func nearestTwo(all []listed) []listed {
	if len(all) < 3 {
		return all
	}
	first := 0
	for i := range all {
		if compareListed(all[i], all[first]) < 0 {
			first = i
		}
	}
	all[first] = all[2]
	return all[:2]
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

// node is the contender as the engine knows it, with its token: see the package comment.
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

// twins returns the names of the nodes made for one join, in line order.
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
