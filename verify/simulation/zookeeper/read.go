package zookeeper

import (
	"slices"
	"strings"
)

// read answers what a member knows by itself.
func (c *conn) read(op int32, in *decoder) (body []byte, code int32) {
	p := in.string()
	watch := op != opGetACL && in.bool()
	if in.bad {
		return nil, errMarshalling
	}
	n := c.m.tree.nodes[p]
	if op == opExists {
		return c.exists(p, n, watch)
	}
	if n == nil {
		return nil, errNoNode
	}
	right := int32(permRead)
	if op == opGetACL {
		right |= permAdmin
	}
	if !may(n.acl, right, c.who) {
		return nil, errNoAuth
	}
	var e encoder
	switch op {
	case opGetData:
		if watch {
			add(c.m.data, p, c)
		}
		e.bytes(n.data)
		e.stat(n.told())
	case opGetChildren, opGetChildren2:
		if watch {
			add(c.m.child, p, c)
		}
		e.strings(c.m.tree.names(p))
		if op == opGetChildren2 {
			e.stat(n.told())
		}
	case opGetACL:
		e.acl(c.shownACL(n))
		e.stat(n.told())
	}
	return e.b, 0
}

// exists answers for a node that need not be there; n is nil then, and the watch is for its creation.
func (c *conn) exists(p string, n *node, watch bool) (body []byte, code int32) {
	if watch {
		add(c.m.data, p, c)
	}
	if n == nil {
		return nil, errNoNode
	}
	if c.e.cfg.Version.atLeast(9, 2) && !may(n.acl, permRead, c.who) {
		return nil, errNoAuth
	}
	var e encoder
	e.stat(n.told())
	return e.b, 0
}

// shownACL returns a node's ACL without the hashes of passwords, unless who asks administers the node.
func (c *conn) shownACL(n *node) []ACL {
	acl := slices.Clone(n.acl)
	if may(n.acl, permAdmin, c.who) {
		return acl
	}
	for i, a := range acl {
		if name, _, ok := strings.Cut(a.ID, ":"); ok && a.Scheme == "digest" {
			acl[i].ID = name + ":x"
		}
	}
	return acl
}
