package driverkit

import (
	"sync/atomic"

	"github.com/turnwise/turnwise/coord/driver"
)

// LineBytes is how many bytes a look at a whole line keeps of what its nodes say: as many as a thousand of our nodes
// may carry.
const LineBytes = 64 << 20

// Room bounds how much a look at a whole line keeps of what the nodes say: anyone who may stand in the line may do so
// many times, and say much each time.
type Room struct{ left atomic.Int64 }

// NewRoom returns room for this many bytes.
func NewRoom(bytes int64) *Room {
	r := new(Room)
	r.left.Store(bytes)
	return r
}

// IsFull reports whether there was no more room for what a node said: then there is none for what others say.
func (r *Room) IsFull() bool { return r.left.Load() < 0 }

// Keep returns the node, without Owner and Data if there is no more room for them. It may be called from several
// goroutines at once.
func (r *Room) Keep(n driver.Node) driver.Node {
	if said := len(n.Owner.Host) + len(n.Owner.Label) + len(n.Data); r.left.Add(-int64(said)) < 0 {
		n.Owner, n.Data = driver.Owner{}, nil
	}
	return n
}
