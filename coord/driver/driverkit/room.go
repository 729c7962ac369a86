package driverkit

import (
	"sync/atomic"

	"github.com/turnwise/turnwise/coord/driver"
)

// LineBytes is how much of what its nodes say a look at a whole line keeps: all that a thousand of ours may say.
const LineBytes = 64 << 20

// Room bounds what a look at a whole line keeps of what the nodes there say: whoever may stand in the line may do so many
// times, and say much each time.
type Room struct{ left atomic.Int64 }

// NewRoom returns room for so many bytes.
func NewRoom(bytes int64) *Room {
	r := new(Room)
	r.left.Store(bytes)
	return r
}

// Keep returns the node, without Owner and Data if there is no room for them any more. It may be called from several
// goroutines at once.
func (r *Room) Keep(n driver.Node) driver.Node {
	if said := len(n.Owner.Host) + len(n.Owner.Label) + len(n.Data); r.left.Add(-int64(said)) < 0 {
		n.Owner, n.Data = driver.Owner{}, nil
	}
	return n
}
