package register

import (
	"encoding/binary"
	"slices"

	"github.com/turnwise/turnwise/coord/driver"
)

// draft is the next content of a line: the line as it was, changed step by step.
type draft struct {
	line
	was     *line  // nil: the register is empty
	from    uint64 // the first token that it gives
	changed bool
	deleted bool   // the register is to be deleted
	gone    []loss // nodes of was that are not there any more, or not as they were
}

// loss is a node that is not as it was.
type loss struct {
	node
	session sessionID // the node's member may be another by now: see forgetMembers
	why     change
	kind    string // what it asks for now, if it was amended
}

type change int

const (
	left    change = iota // by itself
	removed               // by somebody else
	died                  // with its session
	amended
)

func newDraft(was *line) *draft {
	d := &draft{was: was}
	if was != nil {
		d.line = *was
		// Appending must not write into what belongs to the line.
		d.members, d.kinds, d.entries = slices.Clip(d.members), slices.Clip(d.kinds), slices.Clip(d.entries)
	}
	return d
}

// join puts a node at the end.
func (d *draft) join(id sessionID, key publicKey, n uint64, kind string, owner driver.Owner, data []byte, aside uint64) node {
	since := owner.Since.UnixMilli()
	e := node{token: d.next, n: n, data: data, aside: aside}
	e.member = d.member(member{id, key, since, encodeOwner(owner)})
	e.kind = d.kind(kind)
	e.since = since - d.members[e.member].since
	if d.count == 0 {
		d.first, d.last = e.token, e.token
	}
	d.entries = appendEntry(d.entries, e, d.last)
	d.last = e.token
	d.next++
	d.count++
	d.changed = true
	return e
}

// member returns where a member stands, or one that differs only in its time.
func (d *draft) member(m member) int {
	for i, there := range d.members {
		if there.id == m.id && there.key == m.key && there.owner == m.owner {
			return i
		}
	}
	d.members = append(d.members, m)
	return len(d.members) - 1
}

func (d *draft) kind(kind string) int {
	if i := slices.Index(d.kinds, kind); i >= 0 {
		return i
	}
	d.kinds = append(d.kinds, kind)
	return len(d.kinds) - 1
}

// remove takes away up to most of the nodes that gone picks. It reports whether there were any.
func (d *draft) remove(most int, why change, gone func(n node) bool) bool {
	before := d.count
	d.cut(most, func(n node) bool {
		if !gone(n) {
			return false
		}
		d.gone = append(d.gone, loss{node: n, session: d.members[n.member].id, why: why})
		return true
	})
	return d.count < before
}

func (d *draft) cut(most int, gone func(n node) bool) {
	at := 0
	var before uint64 // the token of the last that stays
	kept, removed := 0, 0
	var entries []byte // of those that stay, once one is removed from between them
	copied := false
	for n := range d.nodes() {
		end := at + n.size
		switch {
		case removed < most && gone(n):
			if kept > 0 && !copied {
				entries, copied = append(make([]byte, 0, len(d.entries)), d.entries[:at]...), true
			}
			removed++
			at = end
			continue
		case removed > 0 && kept == 0 && !copied:
			d.first = n.token // the token in the first entry does not count
			if removed == most {
				d.entries = d.entries[at:]
				d.shrunk(removed)
				return
			}
			entries, copied = append(make([]byte, 0, len(d.entries)), d.entries[at:end]...), true
		case copied:
			_, width := binary.Uvarint(d.entries[at:])
			entries = binary.AppendUvarint(entries, n.token-before)
			if removed == most { // all that follow stay as they are
				entries = append(entries, d.entries[at+width:]...)
				d.entries = entries
				d.shrunk(removed)
				return
			}
			entries = append(entries, d.entries[at+width:end]...)
		}
		kept++
		before = n.token
		at = end
	}
	if removed == 0 {
		return
	}
	if copied {
		d.entries = entries
	}
	if d.last = before; kept == 0 {
		d.entries = nil
	}
	d.shrunk(removed)
}

// shrunk is called after a removal.
func (d *draft) shrunk(by int) {
	d.count -= by
	d.changed = true
	if d.count == 0 {
		d.entries, d.members, d.kinds, d.first, d.last = nil, nil, nil, 0, 0
	} else if most := 2*d.count + 16; len(d.members) > most || len(d.kinds) > most {
		d.forgetMembers()
	}
}

// forgetMembers drops members and kinds that no node has any more. It goes through all entries, so it is done only now and
// then. In a node that was found or made before, member and kind are no longer right.
func (d *draft) forgetMembers() {
	old := d.line
	d.members, d.kinds, d.entries = nil, nil, make([]byte, 0, len(old.entries))
	members, kinds := make(map[int]int), make(map[int]int) // where they stand now
	before := uint64(0)
	for n := range old.nodes() {
		n.member = moved(members, n.member, &d.members, old.members)
		n.kind = moved(kinds, n.kind, &d.kinds, old.kinds)
		d.entries = appendEntry(d.entries, n, before)
		before = n.token
	}
}

// moved returns where old[i] stands in now, and puts it there if it is not there yet.
func moved[T any](where map[int]int, i int, now *[]T, old []T) int {
	at, there := where[i]
	if !there {
		at = len(*now)
		*now = append(*now, old[i])
		where[i] = at
	}
	return at
}

// amend gives a node another kind and other data.
func (d *draft) amend(me node, kind string, data []byte, aside uint64) node {
	at := 0
	before := uint64(0)
	for n := range d.nodes() {
		if n.token == me.token {
			d.gone = append(d.gone, loss{n, d.members[n.member].id, amended, kind})
			n.kind, n.data, n.aside = d.kind(kind), data, aside
			n.rev++
			entries := append(make([]byte, 0, len(d.entries)+len(data)+8), d.entries[:at]...)
			entries = appendEntry(entries, n, before)
			d.entries = append(entries, d.entries[at+n.size:]...)
			d.changed = true
			return n
		}
		before = n.token
		at += n.size
	}
	return me
}

// firstChanged reports whether a change puts somebody else first, or amends the first.
func (d *draft) firstChanged() bool {
	if d.was == nil || d.was.count == 0 || d.count == 0 {
		return (d.was == nil || d.was.count == 0) != (d.count == 0)
	}
	if d.was.first != d.first {
		return true
	}
	for _, g := range d.gone {
		if g.token == d.first {
			return true
		}
	}
	return false
}
