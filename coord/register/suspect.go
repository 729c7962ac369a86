package register

import (
	"bytes"
	"context"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/deadlines"
)

// Who only tries (a TryLock, an Entry with Free) does not wait, so it cannot keep looking at a session that stands in its way
// until that is surely dead. If the session looks dead, it writes down which version it saw, in a separate register. Whoever
// tries later finds that, and the session still at the same version: so the session has been seen to stand still for as long
// as if one process had looked on all the time. Unlike somebody who waits, it has clocks alone to go by: that of the store and
// the wall clocks must both be wrong before it ends a session that lives. If a job is tried every minute and one run has
// crashed, the second TryLock after that goes on.

// clear ends those sessions in the way that are dead, and removes their nodes. It reports whether there were any.
func (d *Driver) clear(ctx context.Context, c *clerk, inTheWay []driver.Node) bool {
	over := make(map[sessionID]bool)
	for _, n := range inTheWay {
		id, ok := parseNodeID(n.ID)
		if ok && d.session(id.session) == nil && d.mayAsk(id.session) && d.isOver(ctx, id.session) {
			over[id.session] = true
		}
	}
	return len(over) > 0 && c.await(ctx, c.prune(over)) == nil
}

// mayAsk sees to it that a program that tries in a loop does not ask for a session each time.
func (d *Driver) mayAsk(id sessionID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.asked[id]) < d.cfg.ttl/renewals/2 {
		return false
	}
	if len(d.asked) > mostRemembered {
		clear(d.asked)
	}
	d.asked[id] = time.Now()
	return true
}

// isOver reports whether a session is over. If the session is dead, isOver ends it.
func (d *Driver) isOver(ctx context.Context, id sessionID) bool {
	rctx, cancel := d.requestFor(ctx)
	defer cancel()
	it, err := d.store.Read(rctx, id.key())
	switch {
	case err != nil:
		return false
	case it.Version.IsZero():
		return true
	case d.presence != nil:
		return d.unkept(ctx, id) && d.end(ctx, id, it.Version) == nil
	}
	h, ok := parseHeartbeat(it.Value)
	if !ok || !deadlines.Suspect(it.Age, h.age(time.Now()), h.ttl) {
		return false
	}
	said, err := d.store.Read(rctx, suspectKey+id.String())
	if err != nil {
		return false
	}
	if !bytes.Equal(said.Value, it.Version[:]) {
		d.store.Swap(rctx, Swap{Key: said.Key, Old: said.Version, Next: NewVersion(), Value: it.Version[:], By: d.self})
		return false
	}
	return deadlines.Convict(it.Age, h.age(time.Now()), said.Age, h.ttl) && d.end(ctx, id, it.Version) == nil
}

// age is how long ago a session was renewed, by the wall clocks of its owner and of this process.
func (h heartbeat) age(now time.Time) time.Duration { return now.Round(0).Sub(h.at) }

// unkept reports whether nobody keeps a session just now.
func (d *Driver) unkept(ctx context.Context, id sessionID) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	return d.presence.Unkept(ctx, id.key()) == nil
}
