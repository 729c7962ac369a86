package register

import (
	"encoding/binary"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode"

	"github.com/turnwise/turnwise/coord/driver"
)

// line is what stands in a line's register: who is in it, in order. Its entries stay the bytes that were read, and are
// decoded whenever somebody goes through them: with four thousand waiters, a hand-off that decoded and encoded them all
// would take longer than the trip to the store. So a change copies most of the bytes as they are; see draft. A line is never
// changed.
//
//	format, flags          1 byte each
//	next, seq              see below
//	length, value          see below
//	nodes, first, last     how many there are, and the tokens of the first and of the last
//	length, members        who they are: how many, and for each session, key, time, length, owner
//	length, kinds          what they ask for: how many, and for each length, kind
//	entries                see entry
//
// All numbers are varints.
type line struct {
	next        uint64 // the token of whoever joins next
	seq         uint64 // grows with each swap, even if the register was deleted in between
	watched     watched
	value       []byte // outlives the nodes
	count       int
	first, last uint64
	members     []member
	kinds       []string
	entries     []byte
}

// member is a session that has nodes in a line, or had.
type member struct {
	id    sessionID
	key   publicKey // of its driver
	since int64     // ms; the times of its nodes are counted from it
	owner string    // as encodeOwner makes it
}

// node is one contender, as its entry says.
type node struct {
	token  uint64
	member int
	n      uint64 // which of its session's nodes it is
	rev    uint64 // how often it was amended
	kind   int
	since  int64  // ms, after its member's
	data   []byte // nil if it has none, or if it is aside
	aside  uint64 // not zero: its data is in a register of its own, see nodeID.dataKey
	size   int    // of the entry
}

// lineFormat is 2 since members have keys. All other registers have format.
const (
	format     = 1
	lineFormat = 2
)

// An entry is: token, counted from the one before, and ignored in the first entry; member; n; kind and flags; rev, unless it
// is zero; since; length and data, unless there is none; aside, unless it is zero.
const (
	hasRev = 1 << iota
	hasData
	isAside
	flagBits = iota
)

// watched says what somebody wants to hear of. It is the line's flags.
type watched byte

const (
	firstWatched watched = 1 << iota // that the first node changes
	allWatched                       // that any node does
)

// errNoLine is for what no retry can mend: somebody has to upgrade a program, or to take something away.
var errNoLine = fmt.Errorf("%w: what stands in the register is not what turnwise writes there", driver.ErrDenied)

// mostFormat is the greatest number that a format is ever given: what begins with a greater byte is somebody else's.
const mostFormat = 31

// unread says what is wrong with a value that does not begin with the format that we write.
func unread(value []byte, ours byte) error {
	switch {
	case len(value) == 0 || value[0] == 0 || value[0] == ours || value[0] > mostFormat:
		return errNoLine
	case value[0] > ours:
		return fmt.Errorf("%w: a newer version of turnwise has written it (format %d, and this one reads %d): upgrade this program", driver.ErrDenied, value[0], ours)
	}
	return fmt.Errorf("%w: an older version of turnwise has written it (format %d, and this one reads %d): stop the programs with that version, and see docs/operating.md", driver.ErrDenied, value[0], ours)
}

// More than this was not written by us, and reading it would cost all who look at the line their memory. Nobody joins a line
// that has half as much.
const (
	maxLine    = 32 << 20 // bytes
	maxNodes   = 1 << 17
	maxMembers = 2*maxNodes + 16 // see draft.shrunk
)

var errFull = fmt.Errorf("%w: the line is full: nobody joins behind %d others, or %d bytes", driver.ErrDenied, maxNodes/2, maxLine/2)

// isFull reports whether there is no room for one more. An amendment or a value may still make the line longer.
func (l *line) isFull() bool {
	return l.count >= maxNodes/2 || len(l.entries) >= maxLine/2
}

// parseLine decodes the head. Entries are decoded when they are needed.
func parseLine(value []byte) (*line, error) {
	if len(value) > maxLine {
		return nil, fmt.Errorf("%w (%d bytes, at most %d are read)", errNoLine, len(value), maxLine)
	}
	r := reader{rest: value}
	if r.byte() != lineFormat {
		return nil, unread(value, lineFormat)
	}
	l := &line{watched: watched(r.byte()), next: r.number(), seq: r.number(), value: r.bytes(), count: int(r.number()), first: r.number(), last: r.number()}
	members, kinds := r.bytes(), r.bytes()
	l.entries = r.rest
	if r.bad || l.count < 0 || l.count > len(l.entries) || l.count > maxNodes || !l.parseMembers(members) || !l.parseKinds(kinds) {
		return nil, errNoLine
	}
	return l, nil
}

// parseMembers stops at the first bad byte, as parseKinds does.
func (l *line) parseMembers(text []byte) bool {
	r := reader{rest: text}
	count := r.count()
	if count > maxMembers {
		return false
	}
	for i := 0; i < count && !r.bad; i++ {
		m := member{}
		copy(m.id[:], r.take(len(m.id)))
		copy(m.key[:], r.take(len(m.key)))
		m.since = r.signed()
		m.owner = ownerText(r.bytes())
		l.members = append(l.members, m)
	}
	return !r.bad
}

func (l *line) parseKinds(text []byte) bool {
	r := reader{rest: text}
	count := r.count()
	if count > maxMembers {
		return false
	}
	for range count {
		kind := r.bytes()
		if len(kind) > driver.MaxKind || !driver.ValidKind(string(kind)) { // a long one is not even copied
			return false
		}
		l.kinds = append(l.kinds, string(kind))
	}
	return !r.bad
}

// readLine decodes a line that comes from outside, and checks all of it.
func readLine(value []byte) (*line, error) {
	l, err := parseLine(value)
	if err != nil {
		return nil, err
	}
	return l, l.check()
}

// check goes through all entries.
func (l *line) check() error {
	n, token, bytes := 0, uint64(0), 0
	for e := range l.nodes() {
		if uint(e.member) >= uint(len(l.members)) || uint(e.kind) >= uint(len(l.kinds)) || n > 0 && e.token <= token {
			return errNoLine
		}
		token = e.token
		bytes += e.size
		n++
	}
	if n != l.count || bytes != len(l.entries) || n > 0 && (token != l.last || token >= l.next) {
		return errNoLine
	}
	return nil
}

// nodes goes through the line.
func (l *line) nodes() iter.Seq[node] {
	return func(yield func(node) bool) {
		r := reader{rest: l.entries}
		token := l.first
		for i := range l.count {
			n, ok := r.entry()
			if !ok {
				return
			}
			if i > 0 {
				token += n.token
			}
			n.token = token
			if !yield(n) {
				return
			}
		}
	}
}

// find returns a session's node.
func (l *line) find(id sessionID, n uint64) (node, bool) {
	for e := range l.nodes() {
		if e.n == n && l.members[e.member].id == id {
			return e, true
		}
	}
	return node{}, false
}

func (l *line) id(n node) nodeID { return nodeID{l.members[n.member].id, n.n, n.rev} }

// ahead returns the nodes ahead of a token that a sight needs.
func (l *line) ahead(name string, token uint64, sight driver.Sight) []driver.Node {
	var seen []driver.Node
	for n := range l.nodes() {
		if n.token >= token {
			break
		}
		if sight.Sees(l.kinds[n.kind]) {
			if depth := sight.Depth(); len(seen) == depth {
				seen = append(seen[:0], seen[1:]...)
			}
			seen = append(seen, l.brief(name, n))
		}
	}
	return seen
}

// brief shows a node to those who wait for it: without its owner and its data.
func (l *line) brief(name string, n node) driver.Node {
	return driver.Node{Line: name, ID: l.id(n).String(), Kind: l.kinds[n.kind], Token: driver.Token(n.token)}
}

// full shows a node with its owner, and with its data unless that is aside. owners are those decoded so far, by member: each
// is kept once, however many nodes are his.
func (l *line) full(name string, n node, owners map[int]*driver.Owner) driver.Node {
	d := l.brief(name, n)
	m := l.members[n.member]
	owner, known := owners[n.member]
	if !known {
		owner = decodeOwner(m.owner)
		owners[n.member] = owner
	}
	if owner != nil {
		d.Owner = *owner
		d.Owner.Since = time.UnixMilli(m.since + n.since).UTC()
		d.Owner = d.Owner.Bounded()
	}
	if len(n.data) > 0 {
		d.Data = append([]byte(nil), n.data...)
	}
	return d
}

// printable keeps a name of somebody's choice on one line.
func printable(name string) string {
	const most = 250
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, strings.ToValidUTF8(name[:min(len(name), most)], ""))
}

// whose names the owner of the first node as an operator would know him.
func (l *line) whose() string {
	for n := range l.nodes() {
		o := decodeOwner(l.members[n.member].owner)
		switch {
		case o == nil:
			return ""
		case o.Label != "":
			return printable(o.Label)
		}
		return printable(fmt.Sprintf("%s/%d", o.Host, o.PID))
	}
	return ""
}

// encode puts the head before the entries.
func (l *line) encode() []byte {
	var members, kinds []byte
	members = binary.AppendUvarint(members, uint64(len(l.members)))
	for _, m := range l.members {
		members = append(append(members, m.id[:]...), m.key[:]...)
		members = binary.AppendVarint(members, m.since)
		members = appendBytes(members, m.owner)
	}
	kinds = binary.AppendUvarint(kinds, uint64(len(l.kinds)))
	for _, k := range l.kinds {
		kinds = appendBytes(kinds, k)
	}
	b := make([]byte, 0, 64+len(l.value)+len(members)+len(kinds)+len(l.entries))
	b = append(b, lineFormat, byte(l.watched))
	b = binary.AppendUvarint(b, l.next)
	b = binary.AppendUvarint(b, l.seq)
	b = appendBytes(b, l.value)
	b = binary.AppendUvarint(b, uint64(l.count))
	b = binary.AppendUvarint(b, l.first)
	b = binary.AppendUvarint(b, l.last)
	b = appendBytes(b, members)
	b = appendBytes(b, kinds)
	return append(b, l.entries...)
}

// appendEntry encodes a node. after is the token of the one before it.
func appendEntry(b []byte, n node, after uint64) []byte {
	b = binary.AppendUvarint(b, n.token-after)
	b = binary.AppendUvarint(b, uint64(n.member))
	b = binary.AppendUvarint(b, n.n)
	flags := uint64(n.kind) << flagBits
	if n.rev > 0 {
		flags |= hasRev
	}
	if len(n.data) > 0 {
		flags |= hasData
	}
	if n.aside > 0 {
		flags |= isAside
	}
	b = binary.AppendUvarint(b, flags)
	if n.rev > 0 {
		b = binary.AppendUvarint(b, n.rev)
	}
	b = binary.AppendVarint(b, n.since)
	if len(n.data) > 0 {
		b = appendBytes(b, n.data)
	}
	if n.aside > 0 {
		b = binary.AppendUvarint(b, n.aside)
	}
	return b
}

func appendBytes[T ~string | ~[]byte](b []byte, text T) []byte {
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

// reader decodes bytes. Once something is missing it is bad, and all that it reads is zero.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) fail() {
	r.bad, r.rest = true, nil
}

func (r *reader) byte() byte {
	if b := r.take(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.fail()
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) number() uint64 {
	if len(r.rest) > 0 && r.rest[0] < 0x80 {
		v := r.rest[0]
		r.rest = r.rest[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// count reads a number of things that take at least a byte each.
func (r *reader) count() int {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) signed() int64 {
	v := r.number()
	return int64(v>>1) ^ -int64(v&1)
}

func (r *reader) bytes() []byte {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.fail()
		return nil
	}
	return r.take(int(n))
}

// entry returns the next node; its token is counted from the one before.
func (r *reader) entry() (n node, ok bool) {
	before := len(r.rest)
	n.token, n.member, n.n = r.number(), int(r.number()), r.number()
	flags := r.number()
	n.kind = int(flags >> flagBits)
	if flags&hasRev != 0 {
		n.rev = r.number()
	}
	n.since = r.signed()
	if flags&hasData != 0 {
		n.data = r.bytes()
	}
	if flags&isAside != 0 {
		n.aside = r.number()
	}
	n.size = before - len(r.rest)
	return n, !r.bad
}

// mostOwner is the length of the longest text that encodeOwner makes.
const mostOwner = 2*binary.MaxVarintLen64 + driver.MaxHost + driver.MaxLabel

// ownerText keeps no more of an owner than we would have written. Whoever writes the line next writes that, too.
func ownerText(text []byte) string {
	if len(text) <= mostOwner {
		return string(text)
	}
	o := decodeOwner(string(text))
	if o == nil {
		return ""
	}
	return encodeOwner(*o)
}

// encodeOwner encodes all but the time, as a member's owner.
func encodeOwner(o driver.Owner) string {
	o = o.Bounded()
	b := appendBytes(nil, o.Host)
	b = binary.AppendVarint(b, int64(o.PID))
	return string(append(b, o.Label...))
}

// decodeOwner returns nil if there is none.
func decodeOwner(text string) *driver.Owner {
	r := reader{rest: []byte(text)}
	o := driver.Owner{Host: string(r.bytes()), PID: int(r.signed())}
	o.Label = string(r.rest)
	if r.bad || text == "" {
		return nil
	}
	o = o.Bounded()
	return &o
}
