package register

import (
	"context"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// SetMachine has a driver run on another machine.
func SetMachine(d *Driver, name byte, up func() time.Duration) {
	d.uptime = func() (machine, time.Duration, bool) { return machine{name}, up(), true }
}

// SayThatASessionStandsStill makes a register that says that a machine has seen a session stand still for an hour, as somebody can
// who reads that one and changes nothing.
func SayThatASessionStandsStill(ctx context.Context, store Store, name byte, up time.Duration, session string) error {
	it, err := store.Read(ctx, sessionKey+session)
	if err != nil {
		return err
	}
	s := suspicion{version: it.Version, seen: []seenAt{{machine{name}, up - time.Hour, time.Duration(time.Now().Add(-time.Hour).UnixNano())}}}
	_, err = store.Swap(ctx, Swap{Key: suspectKey + session, Next: NewVersion(), Value: s.encode()})
	return err
}

// SetWallClock has the owner of a session say that it is later than it is, if s is a renewal.
func SetWallClock(s Swap, ahead time.Duration) (Swap, bool) {
	h, ok := parseHeartbeat(s.Value)
	if !ok || !strings.HasPrefix(s.Key, sessionKey) {
		return s, false
	}
	h.at = h.at.Add(ahead)
	s.Value = h.encode()
	return s, true
}

// LineWithDataAside returns a line of so many nodes, each with data in the register that AsideKeys names.
func LineWithDataAside(nodes int) []byte {
	d := newDraft(nil)
	d.next, d.seq = firstToken(1), firstSeq(1)
	for n := range nodes {
		d.join(sessionID{1}, publicKey{}, uint64(n+1), "lock", driver.Owner{Since: time.Now()}, nil, 1)
	}
	return d.encode()
}

func AsideKeys(nodes int) (keys []string) {
	for n := range nodes {
		keys = append(keys, nodeID{session: sessionID{1}, n: uint64(n + 1)}.dataKey(1))
	}
	return keys
}

// WhoNamesDataOfOthers returns a line in which somebody says of a session, whose node he has seen elsewhere, that data which it has put aside
// in other lines belongs to nodes in this one: of its first nodes, the first that each has put.
func WhoNamesDataOfOthers(seen driver.Node, nodes, puts uint64) []byte {
	id, _ := parseNodeID(seen.ID)
	d := newDraft(nil)
	d.next, d.seq = firstToken(1)+1<<20, firstSeq(1)+1<<20
	for n := range nodes {
		for put := range puts {
			d.join(id.session, publicKey{}, n+1, "lock", driver.Owner{Since: time.Now()}, nil, put+1)
		}
	}
	return d.encode()
}
