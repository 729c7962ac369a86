package etcd

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/servers"
)

// Who may connect is granted leases of his own. A leader ends some thousand of them a second, those first that ran out first: with many that
// run out at once he has the lines of dead processes taken for longer. Nobody is let in early.
func TestNeighbourWithoutRightsHasTheDeadStayForLonger(t *testing.T) {
	cluster, _ := guarded(t, servers.Members(1))
	bob := connectLinkWith(t, asUser("nobody"), cluster.Addrs()...).client
	const ttl = 2 * time.Second
	dying := connectLinkWith(t, asUser("locks"), cluster.Addrs()...)
	sess := open(t, dying, WithTTL(ttl))
	join(t, sess, entry("a", "lock"))
	second, ahead := join(t, open(t, connectLinkWith(t, asUser("locks"), cluster.Addrs()...)), entry("a", "lock"))
	next := waiter(t, second, ahead)

	const leases = 8_000
	over := time.Now().Add(6 * time.Second) // when they all end, unless granting them takes longer
	var all sync.WaitGroup
	var begun atomic.Int64
	for range 100 {
		all.Go(func() {
			for begun.Add(1) <= leases {
				if _, err := bob.Grant(context.Background(), max(1+int64(time.Until(over).Seconds()), 2)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	t.Log(leases, "leases, with", time.Until(over), "to go")
	silent(t, next, time.Until(over)-time.Second/2, "beside the holder")
	select {
	case <-sess.Done():
		t.Fatal("the session has ended")
	default:
	}
	dying.freeze(drivertest.Both) // the process dies
	silent(t, next, 2*ttl, "behind the dead, when their TTL is long over")
	answers(t, next, 30*time.Second, nil, "the one behind, at last")
}
