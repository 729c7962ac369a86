package zk

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/turnwise/turnwise/coord/driver"
)

// standing is one of ours in a line.
type standing struct {
	line string
	dir  string

	mu      sync.Mutex
	known   []string // all paths that it ever had
	names   []string // its paths, the present one last: more than one while it is being amended
	made    int64    // a transaction no older than the one that made the present one
	asOf    int64    // what happened up to this transaction it has seen
	nearest string   // the path of the last one ahead of it that it saw
	last    bool     // nobody stood behind it when it looked
}

// stands makes a node one of those that the session has in line.
func (s *session) stands(line, dir, nodePath string) *standing {
	st := &standing{line: line, dir: dir, known: []string{nodePath}, names: []string{nodePath}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.standing[nodePath] = st
	return st
}

// standingAs is what is known of a node under any of its paths.
func (s *session) standingAs(me *driver.Node) *standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.standing[me.ID]; st != nil {
		return st
	}
	return &standing{line: me.Line, dir: path.Dir(me.ID), names: []string{me.ID}}
}

// left forgets a node that has gone.
func (s *session) left(st *standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, p := range st.known {
		if s.standing[p] == st {
			delete(s.standing, p)
		}
	}
}

func (st *standing) present() string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.names[len(st.names)-1]
}

func (st *standing) paths() []string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return slices.Clone(st.names)
}

// isLast reports whether the last look showed nobody behind.
func (st *standing) isLast() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.last
}

func (st *standing) rightBehind(nodePath string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.nearest == nodePath
}

// seen is up to which transaction it knows what happened ahead of it, and to itself; 0: it has not looked yet.
func (st *standing) seen() (ahead, own int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.asOf, max(st.asOf, st.made)
}

// ahead picks out of a list what stands ahead of me and in my way; ok is false if I am not in the list. Without
// sight.All it is the nearest alone, found without sorting: a list may be long, and everybody who joins gets one.
func (st *standing) ahead(in *list, sight driver.Sight) (nodes []driver.Node, ok bool) {
	mine := st.paths()
	me, _ := parseContender(path.Base(mine[0])) // the place is the same in all
	var found []listed
	last := true
	for _, name := range in.names {
		c, isOne := parseContender(name)
		if !isOne {
			continue
		}
		if c.seq == me.seq && slices.Contains(mine, st.dir+"/"+name) {
			ok = true
			continue
		}
		if c.place() > me.place() {
			last = false
			continue
		}
		if !sight.Sees(c.kind) {
			continue
		}
		l := listed{c, name}
		if len(found) == 0 || sight.All {
			found = append(found, l)
		} else if compareListed(l, found[0]) > 0 {
			found[0] = l
		}
	}
	if !ok {
		return nil, false
	}
	slices.SortFunc(found, compareListed)
	for _, l := range found {
		nodes = append(nodes, l.node(st.line, st.dir, in.born))
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.nearest, st.last, st.asOf = "", last, in.asOf
	if n := len(nodes); n > 0 {
		st.nearest = nodes[n-1].ID
	}
	return nodes, true
}

// listed is a contender with its name as it stands in a list.
type listed struct {
	contender
	name string
}

func compareListed(a, b listed) int {
	if a.seq != b.seq {
		return cmp.Compare(a.place(), b.place())
	}
	return strings.Compare(a.name, b.name)
}

// node is a contender as the engine knows it, with its token; see the package's comment.
func (l listed) node(line, dir string, born int64) driver.Node {
	return driver.Node{Line: line, ID: dir + "/" + l.name, Kind: l.kind, Token: token(born, l.contender)}
}

func token(born int64, c contender) driver.Token { return driver.Token(born + int64(c.place())) }

// contenders picks those out of a directory's children and puts them in order.
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
