package etcd

import (
	"bytes"

	"github.com/turnwise/turnwise/coord/driver"
)

// amendedHead opens the value of a contender whose kind is no longer the one in its key. The key can't change: its
// create revision is the place in the line.
const amendedHead = "turnwise kind "

// encodeValue is what a contender's key holds. keyKind is the kind in the key.
func (l layout) encodeValue(keyKind, kind string, o driver.Owner, data []byte) string {
	note := string(data) // what the package concurrency's Election reads
	if l.names == Isolated {
		note = string(driver.EncodeNote(o, data))
	}
	if kind != keyKind {
		return amendedHead + kind + "\n" + note
	}
	return note
}

// decodeValue completes a node, of which the key has told Kind.
func (l layout) decodeValue(n *driver.Node, value []byte) {
	// With stock names a lock's value may be another tool's, and says nothing.
	if kind, note, ok := cutAmended(value); ok && (l.names == Isolated || n.Kind != stockKind) {
		n.Kind, value = kind, note
	}
	if l.names == Isolated {
		n.Owner, n.Data = driver.DecodeNote(value)
	} else if len(value) > 0 {
		n.Data = value
	}
}

// decodeKind is decodeValue for those who need no more.
func (l layout) decodeKind(n *driver.Node, value []byte) {
	if bytes.HasPrefix(value, []byte(amendedHead)) {
		l.decodeValue(n, value)
		n.Owner, n.Data = driver.Owner{}, nil
	}
}

func cutAmended(value []byte) (kind string, note []byte, ok bool) {
	rest, ok := bytes.CutPrefix(value, []byte(amendedHead))
	if !ok {
		return "", nil, false
	}
	head, note, ok := bytes.Cut(rest, []byte{'\n'})
	if !ok || !driver.ValidKind(string(head)) {
		return "", nil, false
	}
	return string(head), note, true
}
