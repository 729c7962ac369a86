package zookeeper

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strings"
)

// identity is who a connection has shown that it is.
type identity struct{ scheme, id string }

// digest is how ZooKeeper writes down a name and a password.
func digest(credential string) string {
	sum := sha1.Sum([]byte(credential))
	name, _, _ := strings.Cut(credential, ":")
	return name + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// may reports whether somebody has a right.
func may(acl []ACL, perm int32, who []identity) bool {
	if len(acl) == 0 {
		return true
	}
	for _, a := range acl {
		if a.Perms&perm == 0 {
			continue
		}
		if a.Scheme == "world" && a.ID == "anyone" || slices.Contains(who, identity{a.Scheme, a.ID}) {
			return true
		}
	}
	return false
}

// settle replaces "auth" by the identities that it stands for; ok is false for rights that make no sense.
func settle(acl []ACL, who []identity) (settled []ACL, ok bool) {
	for _, a := range acl {
		switch {
		case a.Scheme == "world" && a.ID == "anyone":
			settled = append(settled, a)
		case a.Scheme == "auth":
			known := false
			for _, w := range who {
				if w.scheme != "ip" {
					settled = append(settled, ACL{a.Perms, w.scheme, w.id})
					known = true
				}
			}
			if !known {
				return nil, false
			}
		case a.Scheme == "digest" && strings.Count(a.ID, ":") == 1:
			settled = append(settled, a)
		default:
			return nil, false
		}
	}
	return settled, len(settled) > 0
}

// record is what the leader must know of a node to decide about a change.
type record struct {
	there             bool
	children          int
	cversion, version int32
	aversion          int32
	owner             int64
	acl               []ACL
}

// view is the tree with what a transaction has changed so far.
type view struct {
	tree    *tree
	changed map[string]*record
}

func (v *view) at(p string) *record {
	if r := v.changed[p]; r != nil {
		return r
	}
	r := new(record)
	if n := v.tree.nodes[p]; n != nil {
		*r = record{true, len(n.names), n.cversion, n.version, n.aversion, n.owner, n.acl}
	}
	v.changed[p] = r
	return r
}

// operation is one change that somebody asks for.
type operation struct {
	op      int32
	path    string
	data    []byte
	acl     []ACL
	flags   int32
	version int32
}

// prepare decides what becomes of an operation. code is not zero if it is refused.
func (v *view) prepare(o operation, by *Session, who []identity, x *txn) (code int32) {
	x.op, x.path = o.op, o.path
	if o.op == opCreate || o.op == opCreate2 || o.op == opCreateContainer {
		x.op = opCreate
		return v.prepareCreate(o, by, who, x)
	}
	cut := strings.LastIndexByte(o.path, '/')
	if o.op != opDelete && !validPath(o.path) || cut < 0 || strings.IndexByte(o.path, 0) >= 0 {
		return errBadArguments
	}
	n := v.at(o.path)
	switch o.op {
	case opDelete:
		return v.prepareDelete(o, n, who)
	case opSetData:
		if code = n.admits(permWrite, who, o.version, n.version); code == 0 {
			n.version++
			x.data, x.version = o.data, n.version
		}
	case opSetACL:
		acl, ok := settle(o.acl, who)
		if !ok {
			return errInvalidACL
		}
		if code = n.admits(permAdmin, who, o.version, n.aversion); code == 0 {
			n.aversion++
			n.acl = acl
			x.acl, x.version = acl, n.aversion
		}
	case opCheck:
		code = n.admits(permRead, who, o.version, n.version)
	}
	return code
}

// admits returns why a node may not be touched: it is not there, who asks lacks the right, or it has another version than the
// one that is expected.
func (n *record) admits(right int32, who []identity, expected, is int32) (code int32) {
	switch {
	case !n.there:
		return errNoNode
	case !may(n.acl, right, who):
		return errNoAuth
	case expected != -1 && expected != is:
		return errBadVersion
	}
	return 0
}

func (v *view) prepareDelete(o operation, n *record, who []identity) (code int32) {
	if o.path == "/" || o.path == "/zookeeper" {
		return errBadArguments
	}
	parent := v.at(o.path[:max(1, strings.LastIndexByte(o.path, '/'))])
	switch {
	case !parent.there:
		return errNoNode
	case !may(parent.acl, permDelete, who):
		return errNoAuth
	case !n.there:
		return errNoNode
	case o.version != -1 && o.version != n.version:
		return errBadVersion
	case n.children > 0:
		return errNotEmpty
	}
	*n = record{}
	parent.children--
	return 0
}

// flagsFit reports whether the flags of a create go together.
func (o operation) flagsFit() bool {
	known := o.flags&^(flagEphemeral|flagSequential|flagContainer) == 0
	container := o.flags&flagContainer != 0 || o.op == opCreateContainer
	return known && (!container || o.flags == flagContainer)
}

func (v *view) prepareCreate(o operation, by *Session, who []identity, x *txn) (code int32) {
	p := o.path
	if !o.flagsFit() {
		return errBadArguments
	}
	if cut := strings.LastIndexByte(p, '/'); cut < 0 || strings.IndexByte(p, 0) >= 0 {
		return errBadArguments
	}
	acl, ok := settle(o.acl, who)
	if !ok {
		return errInvalidACL
	}
	dir := p[:max(1, strings.LastIndexByte(p, '/'))]
	parent := v.at(dir)
	switch {
	case !parent.there:
		return errNoNode
	case !may(parent.acl, permCreate, who):
		return errNoAuth
	}
	if o.flags&flagSequential != 0 {
		p += fmt.Sprintf("%010d", parent.cversion)
	}
	n := v.at(p)
	switch {
	case !validPath(p):
		return errBadArguments
	case n.there:
		return errNodeExists
	case parent.owner != 0 && parent.owner != containerOwner:
		return errNoChildren
	}
	if parent.cversion < math.MaxInt32 || !v.tree.modern {
		parent.cversion++
	}
	parent.children++
	*n = record{there: true, acl: acl}
	switch {
	case o.flags&flagContainer != 0:
		n.owner = containerOwner
	case o.flags&flagEphemeral != 0:
		n.owner = by.id
	}
	x.path, x.data, x.acl, x.owner, x.cversion = p, o.data, acl, n.owner, parent.cversion
	return 0
}

// validPath reports whether ZooKeeper takes a path.
func validPath(p string) bool {
	if p == "/" {
		return true
	}
	if p == "" || p[0] != '/' || strings.HasSuffix(p, "/") {
		return false
	}
	for segment := range strings.SplitSeq(p[1:], "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	return !strings.ContainsFunc(p, func(r rune) bool {
		return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 && r <= 0xffff
	})
}
