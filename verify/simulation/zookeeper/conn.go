package zookeeper

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// conn is a member's end of a connection. All of it needs the ensemble's mu.
type conn struct {
	e       *Ensemble
	m       *Member
	link    string
	number  int
	pipe    *pipe
	open    bool
	greeted bool // the client has said which session it wants
	old     bool // the client does not know of read-only members
	session *Session
	timeout int32 // as negotiated here, ms
	who     []identity
	queue   []*request // unanswered, the oldest first
}

// request is one that a member has received.
type request struct {
	conn    *conn
	session *Session
	xid, op int32
	body    []byte
	what    string

	// Of requests that the leader decides.
	decided bool
	index   int // how much of the log the member must have made to answer
	txn     *txn
	refused bool // there is no such session
}

// receive takes a frame from the client.
func (c *conn) receive(frame []byte) {
	if !c.open {
		return
	}
	if len(frame)-4 > maxBuffer || int(int32(binary.BigEndian.Uint32(frame))) != len(frame)-4 {
		c.hangUp()
		return
	}
	what := c.e.describe(frame, !c.greeted)
	if !c.greeted {
		c.greeted = true
		c.connect(&decoder{b: frame[4:]}, what)
		return
	}
	in := &decoder{b: frame[4:]}
	r := &request{conn: c, session: c.session, xid: in.int(), op: in.int(), body: in.b, what: what}
	if in.bad || c.session == nil {
		c.hangUp()
		return
	}
	c.touch()
	if !c.e.cfg.Version.knows(r.op) { // this is said before earlier requests have their answers
		c.send(r, encode(r.xid, -1, errUnimplemented, nil))
		c.hangUp()
		return
	}
	if r.op == opAuth {
		c.authenticate(r)
		return
	}
	c.queue = append(c.queue, r)
	if r.needsLeader() {
		c.m.forward(r)
	}
	c.advance()
}

// touch notes that the session has been heard from. The leader hears of it when it asks.
func (c *conn) touch() {
	if l := c.m.reign; l != nil {
		l.touch(l.tracked[c.session.id], c.timeout)
	} else {
		c.m.touched[c.session.id] = c.timeout
	}
}

// connect opens a session, or goes on with one.
func (c *conn) connect(in *decoder, what string) {
	in.int() // the protocol's version
	seen, timeout, id, password := in.long(), in.int(), in.long(), in.bytes()
	c.old = len(in.b) == 0
	if in.bad || seen > c.m.tree.zxid {
		c.hangUp() // the client would have to forget what it has seen
		return
	}
	c.timeout = max(min(timeout, int32(c.m.Most.Milliseconds())), int32(c.m.Least.Milliseconds()))
	r := &request{conn: c, op: opCreateSession, what: what}
	if id != 0 {
		for _, other := range slices.Clone(c.m.conns) {
			if other != c && other.session != nil && other.session.id == id {
				other.hangUp()
			}
		}
		r.session = c.e.sessions[id]
		if r.session == nil || string(password) != string(passwordOf(id)) {
			r.decided, r.refused = true, true
			c.queue = append(c.queue, r)
			c.advance()
			return
		}
	}
	c.queue = append(c.queue, r)
	c.m.forward(r)
	c.advance()
}

func passwordOf(id int64) []byte {
	e := encoder{}
	e.long(id * 7919)
	e.long(id ^ 0x5a5a5a5a5a5a5a5a)
	return e.b
}

func (c *conn) authenticate(r *request) {
	in := &decoder{b: r.body}
	in.int()
	scheme, credential := in.string(), string(in.bytes())
	if scheme != "digest" || !strings.Contains(credential, ":") {
		c.send(r, encode(r.xid, 0, errAuthFailed, nil))
		c.hangUp()
		return
	}
	c.who = append(c.who, identity{scheme, digest(credential)})
	c.send(r, encode(r.xid, 0, 0, nil))
}

// needsLeader reports whether a member cannot answer a request by itself.
func (r *request) needsLeader() bool {
	switch r.op {
	case opCreateSession, opCloseSession, opCreate, opCreate2, opCreateContainer, opDelete, opSetData, opSetACL, opMulti, opCheck, opSync:
		return true
	}
	return false
}

// knows reports whether there is such an operation.
func (v Version) knows(op int32) bool {
	switch op {
	case opCreateContainer:
		return v.atLeast(5, 3)
	case opGetEphemerals, opAddWatch:
		return v.atLeast(6, 0)
	case opCreate2:
		return v.atLeast(5, 0)
	case opPing, opAuth, opCloseSession, opSetWatches, opMulti:
		return true
	}
	_, known := names[op]
	return known
}

// forward sends a request to the leader.
func (m *Member) forward(r *request) {
	if p := m.peer; p != nil {
		p.say(r.what, func() { p.l.decide(r) })
	} else if m.reign != nil {
		m.reign.decide(r)
	}
}

// prepare decides about a change.
func (l *reign) prepare(r *request, x *txn) {
	v := &view{l.ahead, make(map[string]*record)}
	in := &decoder{b: r.body}
	if r.op != opMulti {
		o := readOperation(r.op, in)
		if in.bad {
			x.code = errMarshalling
			return
		}
		x.code = v.prepare(o, r.session, r.conn.who, x)
		return
	}
	x.op = opMulti
	for {
		op, over, _ := in.int(), in.bool(), in.int()
		if over || in.bad {
			break
		}
		o := readOperation(op, in)
		if in.bad {
			break
		}
		part := &txn{session: x.session}
		if x.code == 0 {
			part.code = v.prepare(o, r.session, r.conn.who, part)
			part.op = normal(op)
			x.code = part.code
		} else {
			part.code = errInconsistency
		}
		x.parts = append(x.parts, part)
	}
	if in.bad {
		*x = txn{session: x.session, code: errMarshalling}
	}
	if x.code != 0 {
		for _, part := range x.parts {
			part.op = opError
		}
	}
}

// normal returns the operation that a change comes down to.
func normal(op int32) int32 {
	if op == opCreate2 || op == opCreateContainer {
		return opCreate
	}
	return op
}

func readOperation(op int32, in *decoder) operation {
	o := operation{op: op, path: in.string()}
	switch op {
	case opCreate, opCreate2, opCreateContainer:
		o.data, o.acl, o.flags = in.bytes(), in.acl(), in.int()
	case opDelete, opCheck:
		o.version = in.int()
	case opSetData:
		o.data, o.version = in.bytes(), in.int()
	case opSetACL:
		o.acl, o.version = in.acl(), in.int()
	default:
		in.bad = true
	}
	return o
}

// advance answers what can be answered, in order.
func (c *conn) advance() {
	for c.open && len(c.queue) > 0 {
		r := c.queue[0]
		if r.needsLeader() && (!r.decided || c.m.applied < r.index) {
			return
		}
		c.queue = c.queue[1:]
		c.answer(r)
	}
}

func (c *conn) answer(r *request) {
	switch {
	case r.op == opCreateSession:
		c.greet(r)
		return
	case r.txn != nil && r.txn.code == errMoved:
		c.hangUp()
		return
	case r.txn == nil && c.m.reign != nil && c.m.reign.elsewhere(r):
		c.hangUp()
		return
	case r.op == opSetWatches && c.e.refusing[c.link]:
		delete(c.e.refusing, c.link)
		c.send(r, encode(r.xid, c.m.tree.zxid, errThrottled, nil))
		return
	}
	body, code := c.result(r)
	if code != 0 {
		body = nil
	}
	c.send(r, encode(r.xid, c.m.tree.zxid, code, body))
	if r.op == opCloseSession {
		c.hangUp()
	}
}

func (c *conn) greet(r *request) {
	var e encoder
	e.int(0)
	if r.refused {
		e.int(0)
		e.long(0)
		e.bytes(make([]byte, 16))
	} else {
		c.session = r.session
		e.int(c.timeout)
		e.long(c.session.id)
		e.bytes(passwordOf(c.session.id))
	}
	if !c.old {
		e.bool(false)
	}
	c.send(r, e.frame())
	if r.refused {
		c.hangUp()
	}
}

func encode(xid int32, zxid int64, code int32, body []byte) []byte {
	var e encoder
	e.int(xid)
	e.long(zxid)
	e.int(code)
	e.b = append(e.b, body...)
	return e.frame()
}

// send gives an answer to the network.
func (c *conn) send(r *request, frame []byte) {
	s := c.session
	c.e.cfg.Network.ToClient(Parcel{Link: c.link, Connection: c.number, What: r.what, Arrive: func() bool {
		read := c.pipe.deliver(frame)
		if read && r.op == opCreateSession && s != nil {
			s.untold.Store(0)
		}
		return read
	}})
}

// tell sends news, unless it is of a node that the client may not read.
func (c *conn) tell(n news) {
	what, p, zxid := n.what, n.path, n.zxid
	if !c.e.cfg.Leaks && !may(n.acl, permRead, c.who) {
		return
	}
	if !c.e.cfg.Version.atLeast(9, 0) {
		zxid = -1
	}
	var e encoder
	e.int(int32(what))
	e.int(3) // connected
	e.string(p)
	frame := encode(xidEvent, zxid, 0, e.b)
	parcel := Parcel{Link: c.link, Connection: c.number, What: fmt.Sprintf("event %v %s", what, c.e.short(p)), Event: true,
		Arrive: func() bool { return c.pipe.deliver(frame) }}
	if what == nodeDeleted {
		parcel.Deleted = p
		if s := c.e.owners[p]; s != nil {
			parcel.Owner = s.link
		}
	}
	c.e.cfg.Network.ToClient(parcel)
}

// end forgets a connection that has nobody at the other end any more. Requests already forwarded go on.
func (c *conn) end() {
	if !c.open {
		return
	}
	c.open = false
	c.queue = nil
	c.m.unwatch(c)
	c.m.conns = slices.DeleteFunc(c.m.conns, func(other *conn) bool { return other == c })
}

// hangUp ends a connection from the member's side.
func (c *conn) hangUp() {
	if !c.open {
		return
	}
	c.end()
	c.e.cfg.Network.ToClient(Parcel{Link: c.link, Connection: c.number, What: "hung up", HungUp: true, Arrive: c.pipe.finish})
}

// result returns what a member answers.
func (c *conn) result(r *request) (body []byte, code int32) {
	t, in := c.m.tree, &decoder{b: r.body}
	var e encoder
	switch r.op {
	case opPing:
		return nil, 0
	case opSync:
		if r.txn != nil {
			return nil, r.txn.code
		}
		e.string(in.string())
		return e.b, 0
	case opCloseSession:
		return nil, 0
	case opCreate, opCreate2, opCreateContainer, opDelete, opSetData, opSetACL, opMulti, opCheck:
		return c.resultOfChange(r), c.codeOf(r)
	case opExists, opGetData, opGetChildren, opGetChildren2, opGetACL:
		return c.read(r.op, in)
	case opSetWatches:
		since, data, exist, child := in.long(), in.strings(), in.strings(), in.strings()
		if in.bad {
			return nil, errMarshalling
		}
		c.setWatches(since, data, exist, child)
		return nil, 0
	case opGetEphemerals:
		var mine []string
		prefix := in.string()
		for _, p := range t.ephemerals(c.session.id) {
			if strings.HasPrefix(p, prefix) {
				mine = append(mine, p)
			}
		}
		e.strings(mine)
		return e.b, 0
	case opAddWatch:
		p, mode := in.string(), in.int()
		if in.bad || mode < 0 || mode > 1 {
			return nil, errBadArguments
		}
		all := slices.DeleteFunc(c.m.persistent[p], func(s standing) bool {
			return s.conn == c && (s.recursive == (mode == 1) || !c.e.cfg.Version.atLeast(9, 0)) // see ZOOKEEPER-4466
		})
		c.m.persistent[p] = append(all, standing{c, mode == 1})
		e.int(0)
		return e.b, 0
	}
	return nil, errUnimplemented
}

func (c *conn) codeOf(r *request) int32 {
	if r.op == opMulti && len(r.txn.parts) > 0 {
		return 0 // each part has its own
	}
	return r.txn.code
}

func (c *conn) resultOfChange(r *request) []byte {
	t := c.m.tree
	var e encoder
	statOf := func(p string) stat {
		if n := t.nodes[p]; n != nil {
			return n.told()
		}
		return stat{}
	}
	if r.txn.code != 0 && r.op != opMulti {
		return nil
	}
	switch r.op {
	case opCreate:
		e.string(r.txn.path)
	case opCreate2, opCreateContainer:
		e.string(r.txn.path)
		e.stat(statOf(r.txn.path))
	case opSetData, opSetACL:
		e.stat(statOf(r.txn.path))
	case opMulti:
		in := &decoder{b: r.body}
		for i, part := range r.txn.parts {
			asked := in.int()
			in.bool()
			in.int()
			readOperation(asked, in)
			if part.op == opError {
				e.int(-1)
				e.bool(false)
				e.int(part.code)
				e.int(part.code)
				continue
			}
			if !c.e.cfg.Version.atLeast(9, 0) {
				asked = normal(asked)
			}
			e.int(asked)
			e.bool(false)
			e.int(0)
			switch asked {
			case opCreate:
				e.string(part.path)
			case opCreate2, opCreateContainer:
				e.string(part.path)
				e.stat(t.parts[i])
			case opSetData:
				e.stat(t.parts[i])
			}
		}
		e.int(-1)
		e.bool(true)
		e.int(-1)
	}
	return e.b
}

// setWatches sets watches again after a reconnect. What has changed meanwhile is told at once; before 3.9, even to those who
// may not read it.
func (c *conn) setWatches(since int64, data, exist, child []string) {
	t := c.m.tree
	tell := func(what eventType, p string, n *node) {
		told := news{what, p, -1, nil}
		if n != nil && c.e.cfg.Version.atLeast(9, 0) {
			told.acl = n.acl
		}
		c.tell(told)
	}
	for _, p := range data {
		switch n := t.nodes[p]; {
		case n == nil:
			tell(nodeDeleted, p, n)
		case n.mzxid > since:
			tell(dataChanged, p, n)
		default:
			add(c.m.data, p, c)
		}
	}
	for _, p := range exist {
		if n := t.nodes[p]; n != nil {
			tell(nodeCreated, p, n)
		} else {
			add(c.m.data, p, c)
		}
	}
	for _, p := range child {
		switch n := t.nodes[p]; {
		case n == nil:
			tell(nodeDeleted, p, n)
		case n.pzxid > since:
			tell(childrenChanged, p, n)
		default:
			add(c.m.child, p, c)
		}
	}
}

// describe says in a few words what a frame asks for.
func (e *Ensemble) describe(frame []byte, first bool) string {
	in := &decoder{b: frame[4:]}
	if first {
		in.int()
		in.long()
		in.int()
		if in.long() != 0 {
			return "connect again"
		}
		return "connect"
	}
	in.int()
	op := in.int()
	switch op {
	case opPing:
		return "ping"
	case opAuth:
		return "auth"
	case opCloseSession:
		return "close"
	case opMulti:
		op, _, _ := in.int(), in.bool(), in.int()
		o := readOperation(op, in)
		next, over := in.int(), in.bool()
		if in.bad || over && next == -1 {
			return "multi " + names[op] + " " + e.short(o.path)
		}
		return "multi " + names[op] + "… " + e.short(o.path)
	case opSetWatches:
		in.long()
		var all []string
		for range 3 {
			for _, p := range in.strings() {
				all = append(all, e.short(p))
			}
		}
		return "watch " + strings.Join(all, " ")
	}
	name, known := names[op]
	if !known {
		name = fmt.Sprintf("operation %d", op)
	}
	return strings.TrimSpace(name + " " + e.short(in.string()))
}

var names = map[int32]string{
	opCreate: "create", opDelete: "delete", opExists: "exists", opGetData: "get", opSetData: "set", opGetACL: "acl",
	opSetACL: "set acl", opSync: "sync", opGetChildren: "list", opGetChildren2: "list", opCheck: "check", opCreate2: "create",
	opCreateContainer: "container", opGetEphemerals: "ephemerals", opAddWatch: "watch",
}

// short leaves out of a path what is the same in all, or random.
func (e *Ensemble) short(p string) string {
	rest, ok := strings.CutPrefix(p, e.cfg.Root+"/")
	if !ok {
		return p
	}
	if at := strings.LastIndex(rest, "/_c_"); at >= 0 && len(rest) > at+4+33 {
		return rest[:at+1] + rest[at+4+33:]
	}
	return rest
}
