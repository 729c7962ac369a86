package memory

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/turnwise/turnwise/coord/driver"
)

// stored is a node at the service.
type stored struct {
	driver.Node
	session int64
	version int // counts the amendments
}

// state is the lines as one replica knows them.
type state struct {
	lines map[string][]*stored // in order
	nodes map[string]*stored   // by the ID that they joined with
}

func newState() state {
	return state{lines: make(map[string][]*stored), nodes: make(map[string]*stored)}
}

// get returns the node that has this ID, or had it before an amendment.
func (s *state) get(id string) *stored { return s.nodes[origin(id)] }

// exactly returns the node that has this ID now.
func (s *state) exactly(id string) *stored {
	if n := s.get(id); n != nil && n.ID == id {
		return n
	}
	return nil
}

// origin is the ID that a node joined with.
func origin(id string) string {
	first, _, _ := strings.Cut(id, "+")
	return first
}

func renamed(id string, version int) string { return fmt.Sprintf("%s+%d", origin(id), version) }

// change is an entry in the log that replicas follow.
type change struct {
	kind changeKind
	node stored
	was  string // amended: the ID it had before
	held bool   // gone: it said it had the line to itself
	rev  int64
}

type changeKind int

const (
	joined changeKind = iota
	amended
	gone
)

func (s *state) apply(c change) {
	switch c.kind {
	case joined:
		n := c.node
		s.lines[n.Line] = append(s.lines[n.Line], &n)
		s.nodes[origin(n.ID)] = &n
	case amended:
		n := c.node
		line := s.lines[n.Line]
		line[position(line, n.Token)] = &n
		s.nodes[origin(n.ID)] = &n
	case gone:
		line := s.lines[c.node.Line]
		i := position(line, c.node.Token)
		delete(s.nodes, origin(c.node.ID))
		if len(line) == 1 {
			delete(s.lines, c.node.Line)
		} else {
			s.lines[c.node.Line] = slices.Delete(line, i, i+1)
		}
	}
}

// position returns how many nodes stand ahead of a token.
func position(line []*stored, t driver.Token) int {
	return sort.Search(len(line), func(i int) bool { return line[i].Token >= t })
}

// ahead returns the nodes of a line that stand ahead of a token, within sight and in order.
func (s *state) ahead(name string, t driver.Token, sight driver.Sight) []driver.Node {
	line := s.lines[name]
	line = line[:position(line, t)]
	if sight.All {
		var all []driver.Node
		for _, n := range line {
			if sight.Sees(n.Kind) {
				all = append(all, n.bare())
			}
		}
		return all
	}
	for _, n := range slices.Backward(line) {
		if sight.Sees(n.Kind) {
			return []driver.Node{n.bare()}
		}
	}
	return nil
}

// last reports whether nobody stands behind a token.
func (s *state) last(name string, t driver.Token) bool {
	line := s.lines[name]
	return position(line, t+1) == len(line)
}

// bare returns the node as a look shows it: without Owner and Data.
func (n *stored) bare() driver.Node {
	return driver.Node{Line: n.Line, ID: n.ID, Kind: n.Kind, Token: n.Token}
}

func (s *state) list(name string) []driver.Node {
	var all []driver.Node
	for _, n := range s.lines[name] {
		node := n.Node
		node.Data = append([]byte(nil), n.Data...)
		all = append(all, node)
	}
	return all
}

func (s *state) names(prefix string) []string {
	var names []string
	for name := range s.lines {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
