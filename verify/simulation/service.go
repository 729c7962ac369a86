package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/internal/chance"
)

// Profile is what the far side is.
type Profile int

const (
	Register  Profile = iota // a store of registers, with the driver that every store has: coord/register
	ZooKeeper                // an ensemble that speaks ZooKeeper's protocol, with coord/zk
	Etcd                     // an etcd cluster behind its gRPC services, with coord/etcd
)

// AllProfiles are all there are.
var AllProfiles = []Profile{Register, ZooKeeper, Etcd}

func (p Profile) String() string {
	return [...]string{"register", "zookeeper", "etcd"}[p]
}

// profileOf returns the Profile of that name.
func profileOf(name string) (Profile, bool) {
	for _, p := range AllProfiles {
		if p.String() == name {
			return p, true
		}
	}
	return 0, false
}

// keepsOrder reports whether requests and answers of a link never overtake each other.
func (p Profile) keepsOrder() bool { return p == ZooKeeper }

// hasServers reports whether there are several servers, so that some may be cut off from the others.
func (p Profile) hasServers() bool { return p != Register }

// service is the far side: what the drivers reach through the scheduler, and the world past it.
type service interface {
	NewDriver(link string) driver.Driver

	Nodes(line string) []driver.Node // as they stand; the caller may change them
	Names(prefix string) []string
	Expiry(node string) time.Time // when its session ends if nothing more is heard; zero: it has ended
	LinkOf(node string) string    // whose session it is of; "" if that has ended
	Abandoned(node string) bool   // it goes when its session's time is up, and nobody will say more
	Taken(node string) time.Time  // when an operator took it away, with its session or alone, as far as that is known; zero: nobody did
	Watches() int                 // those that nobody needs
	Remains() []string            // what else is left of sessions that have ended

	// Guarded returns a write by a holder to data in the same service, under the service's own guard. The write says whether it
	// was taken. It is nil if there is no guard, or none any more.
	Guarded(h *coord.Hold) (write func() bool)

	Remove(node string) bool
	Write(node string, data []byte)
	ExpireLink(link string)
	Refuse(link string)
	Reconnect(link string)
	Strand(link string) (heal func())
	CatchUp(replica, n int) int // everything: and it does not lag behind any more
	Tidy()                      // begins to clear away what the dead have left, if the clients do that for each other

	Close()
}

// What drivers leave to chance follows from the time in the bubble, so that a seed gives the same run again.
func init() {
	chance.Below = func(n int64) int64 {
		return int64(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(n)).Uint64() % uint64(n))
	}
}

// incarnation tells one node from all others, however often it is amended. A register's driver that does not know whether
// its join was applied makes the same node again, with another token.
func incarnation(n driver.Node) string {
	id, revised, _ := strings.Cut(n.ID, ".")
	if revised == "" {
		return n.ID
	}
	return fmt.Sprintf("%s of token %d", id, ofNode(n.Token))
}
