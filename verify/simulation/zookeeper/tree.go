package zookeeper

import (
	"cmp"
	"math"
	"path"
	"slices"
	"strings"
)

// ACL is who may do what with a node.
type ACL struct {
	Perms      int32
	Scheme, ID string
}

const (
	permRead = 1 << iota
	permWrite
	permCreate
	permDelete
	permAdmin
	permAll = 1<<iota - 1
)

var openACL = []ACL{{permAll, "world", "anyone"}}

// containerOwner is who a container belongs to.
const containerOwner = math.MinInt64

// stat is what ZooKeeper tells of a node. In a tree, cversion counts the children that were made; what clients are told also
// counts those that have gone.
type stat struct {
	czxid, mzxid, pzxid         int64
	ctime, mtime                int64
	version, cversion, aversion int32
	owner                       int64
	length, children            int32 // only in what is told
}

type node struct {
	stat
	data  []byte
	acl   []ACL
	names map[string]bool // of its children
}

// told is the stat as a client gets it.
func (n *node) told() stat {
	s := n.stat
	s.length, s.children = int32(len(n.data)), int32(len(n.names))
	s.cversion = s.cversion*2 - s.children
	s.owner = max(0, s.owner) // nobody is told of containers
	return s
}

// txn is a change that all members make in the same order. The leader has decided what it comes to.
type txn struct {
	zxid     int64
	at       int64 // ms
	session  int64
	op       int32
	path     string
	data     []byte
	acl      []ACL
	owner    int64 // of a new node
	cversion int32 // the parent's
	first    int32 // the new node's
	version  int32 // the node's
	code     int32 // of an error
	timeout  int32 // of a new session, ms
	parts    []*txn
	asked    *request // by a client; nil: by nobody
}

// changes reports whether there is anything to tell of a transaction.
func (x *txn) changes() bool {
	switch x.op {
	case opCreate, opDelete, opSetData, opCloseSession:
		return true
	}
	return slices.ContainsFunc(x.parts, (*txn).changes)
}

// tree is a member's copy of the data, and of who has a session.
type tree struct {
	nodes    map[string]*node
	sessions map[int64]int32 // timeouts as granted first, ms
	zxid     int64           // of the latest change
	modern   bool            // the numbers of a directory stick at their end, and do not go on below zero

	parts   []stat     // as each change of the latest transaction has left its node
	changed func(news) // told of each change, in order; nil: nobody is
}

func newTree(modern bool) *tree {
	t := &tree{nodes: make(map[string]*node), sessions: make(map[int64]int32), modern: modern}
	for _, p := range []string{"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
		t.nodes[p] = &node{names: make(map[string]bool), acl: openACL}
		if p != "/" {
			t.nodes[path.Dir(p)].names[path.Base(p)] = true
		}
	}
	t.nodes["/"].cversion = 0
	return t
}

// names returns a node's children, the oldest first. ZooKeeper has them in no order.
func (t *tree) names(p string) []string {
	all := make([]string, 0, len(t.nodes[p].names))
	for name := range t.nodes[p].names {
		all = append(all, name)
	}
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(t.nodes[join(p, a)].czxid, t.nodes[join(p, b)].czxid), strings.Compare(a, b))
	})
	return all
}

func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

// ephemerals returns the nodes of a session, the oldest first. ZooKeeper has them in no order.
func (t *tree) ephemerals(session int64) (all []string) {
	for p, n := range t.nodes {
		if n.owner == session && session != 0 {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(t.nodes[a].czxid, t.nodes[b].czxid), strings.Compare(a, b))
	})
	return all
}

// news is what a watch tells, and who may hear it.
type news struct {
	what eventType
	path string
	zxid int64
	acl  []ACL // nil: anybody
}

func (t *tree) tell(n news) {
	if t.changed != nil {
		t.changed(n)
	}
}

// apply makes a change.
func (t *tree) apply(x *txn) {
	t.zxid = max(t.zxid, x.zxid)
	switch x.op {
	case opCreate:
		t.create(x)
	case opDelete:
		t.delete(x.path, x.zxid)
	case opSetData:
		n := t.nodes[x.path]
		n.data, n.version, n.mzxid, n.mtime = x.data, x.version, x.zxid, x.at
		t.tell(news{dataChanged, x.path, x.zxid, n.acl})
	case opSetACL:
		n := t.nodes[x.path]
		n.acl, n.aversion = x.acl, x.version
	case opCreateSession:
		t.sessions[x.session] = x.timeout
	case opCloseSession:
		for _, p := range t.ephemerals(x.session) {
			t.delete(p, x.zxid)
		}
		delete(t.sessions, x.session)
	case opMulti:
		t.parts = nil
		for _, part := range x.parts {
			t.apply(part)
			var s stat
			if n := t.nodes[part.path]; n != nil {
				s = n.told()
			}
			t.parts = append(t.parts, s)
		}
	}
}

func (t *tree) create(x *txn) {
	dir := path.Dir(x.path)
	parent := t.nodes[dir]
	parent.names[path.Base(x.path)] = true
	if x.cversion > parent.cversion || !t.modern {
		parent.cversion, parent.pzxid = x.cversion, x.zxid
	}
	t.nodes[x.path] = &node{data: x.data, acl: x.acl, names: make(map[string]bool),
		stat: stat{czxid: x.zxid, mzxid: x.zxid, pzxid: x.zxid, ctime: x.at, mtime: x.at, owner: x.owner, cversion: x.first}}
	t.tell(news{nodeCreated, x.path, x.zxid, x.acl})
	t.tell(news{childrenChanged, dir, x.zxid, parent.acl})
}

func (t *tree) delete(p string, zxid int64) {
	dir := path.Dir(p)
	parent := t.nodes[dir]
	delete(parent.names, path.Base(p))
	parent.pzxid = max(parent.pzxid, zxid)
	acl := t.nodes[p].acl
	delete(t.nodes, p)
	t.tell(news{nodeDeleted, p, zxid, acl})
	t.tell(news{childrenChanged, dir, zxid, parent.acl})
}
