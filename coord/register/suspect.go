package register

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/deadlines"
)

// Who only tries (a TryLock, an Entry with Free) or waits for a moment only, is gone before it has seen a session stand still for
// long enough. So if a session looks dead, it writes down which version it saw, in a separate register, and when, by the time for
// which its machine has been up. Whoever comes later finds that, and the session still at the same version. On the same machine it
// then knows for how long the session has stood still, as if one process had looked on all the time, and needs no clock that
// anybody sets. On another one it goes by the store's clock and the wall clocks: both must be wrong before it ends a session
// that lives. If a job is tried every minute and one run has crashed, the second TryLock after that goes on.
//
// Somebody who may make registers, and may change none, can write down that our machine has seen it long ago. But nobody has seen a
// version before it was written, so that counts from then, by the store's clock if that has one, or from when it was written down for
// the first time.

// suspicion is what stands in the register: a version, and the machines that have seen it.
type suspicion struct {
	version Version
	seen    []seenAt
}

type seenAt struct {
	by   machine
	up   time.Duration // of the machine when it had the answer
	wall time.Duration // by its wall clock, since 1970
}

// agrees reports whether both clocks of a machine have gone on alike. If not, its wall clock was set, or this is another machine:
// two that were started from one snapshot pass for the same, and each has been up for another time.
func (at seenAt) agrees(now seenAt, ttl time.Duration) bool {
	apart := (now.up - at.up) - (now.wall - at.wall)
	return at.by == now.by && at.up <= now.up && apart.Abs() <= ttl/50 // a holder keeps ttl/20 in reserve
}

// mostMachines bounds a suspicion.
const mostMachines = 8

func (s *suspicion) encode() []byte {
	b := append([]byte(nil), s.version[:]...)
	for _, at := range s.seen {
		b = append(b, at.by[:]...)
		b = binary.BigEndian.AppendUint64(b, uint64(at.up))
		b = binary.BigEndian.AppendUint64(b, uint64(at.wall))
	}
	return b
}

// parseSuspicion returns what says of the version; nothing if it is about another, or nothing that we write.
func parseSuspicion(value []byte, version Version) (s suspicion, ok bool) {
	s.version = version
	rest, ok := bytes.CutPrefix(value, version[:])
	const size = len(machine{}) + 16
	if !ok || len(rest)%size != 0 || len(rest) > mostMachines*size {
		return s, false
	}
	for ; len(rest) > 0; rest = rest[size:] {
		at := seenAt{by: machine(rest[:len(machine{})])}
		clocks := rest[len(machine{}):]
		at.up, at.wall = time.Duration(binary.BigEndian.Uint64(clocks)), time.Duration(binary.BigEndian.Uint64(clocks[8:]))
		s.seen = append(s.seen, at)
	}
	return s, true
}

// since returns for how long a machine has been up when it saw it.
func (s *suspicion) since(now seenAt, ttl time.Duration) (up time.Duration, ok bool) {
	for _, at := range s.seen {
		if at.agrees(now, ttl) {
			return at.up, true
		}
	}
	return 0, false
}

// add has a machine see it from now on. If there is no room it takes the place of any other, which may never come back: if it were the
// oldest, and more come in turn than there are places, none would ever find its own. For the same reason another of the same name keeps
// its entry. Each that is added takes a swap, by which the store's clock measures how old the suspicion is, said. So where there is such a clock,
// add takes a place only when that has counted for long enough, and has not helped since another clock is wrong.
func (s *suspicion) add(now seenAt, said Item, ttl time.Duration) bool {
	switch {
	case len(s.seen) < mostMachines:
		s.seen = append(s.seen, now)
	case said.Age < 0 || said.Age >= deadlines.Silence(ttl):
		s.seen[said.Version[0]%mostMachines] = now // a version is random
	default:
		return false
	}
	return true
}

// clear ends those sessions in the way that are dead, and removes their nodes. It reports whether there were any. first is the token of
// the first in line.
func (d *Driver) clear(ctx context.Context, c *clerk, inTheWay []driver.Node, first uint64) bool {
	over := make(map[sessionID]bool)
	for _, n := range inTheWay {
		id, ok := parseNodeID(n.ID)
		if ok && d.session(id.session) == nil && d.mayAsk(id.session) && d.isOver(ctx, id.session, uint64(n.Token) == first) {
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

// callOnce calls a session, but not each time that a program tries in a loop: one that seems late only because of somebody's clock has
// answered, and is renewed by itself before that.
func (d *Driver) callOnce(ctx context.Context, id sessionID, h heartbeat, it Item) error {
	d.mu.Lock()
	at, before := d.called[id]
	d.mu.Unlock()
	if before && time.Since(at) < h.ttl/renewals {
		return nil
	}
	if err := d.call(ctx, id, it); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.called) > mostRemembered {
		clear(d.called)
	}
	d.called[id] = time.Now()
	return nil
}

// isOver reports whether a session is over. If the session is dead, isOver ends it. If it rests, and is first in line or seems late, it is called.
func (d *Driver) isOver(ctx context.Context, id sessionID, first bool) bool {
	rctx, cancel := d.requestFor(ctx)
	defer cancel()
	_, asked, _ := d.uptime()
	it, err := d.store.Read(rctx, id.key())
	switch {
	case err != nil:
		return false
	case it.Version.IsZero():
		return true
	case d.presence != nil:
		return d.unkept(ctx, id) && d.end(ctx, id, it.Version) == nil
	}
	switch h, _ := parseHeartbeat(it.Value); {
	case first:
		err = d.call(ctx, id, it)
	case h.rests() && h.isOverdue(it):
		err = d.callOnce(ctx, id, h, it)
	}
	if err != nil {
		return false
	}
	return d.suspects(ctx, id, it, asked) && d.end(ctx, id, it.Version) == nil
}

// suspects reports whether a session may be ended that stood at this version when it was asked for, asked after our machine came
// up. If it only looks dead, suspects sees to it that the next one who comes knows.
func (d *Driver) suspects(ctx context.Context, id sessionID, it Item, asked time.Duration) bool {
	us, up, known := d.uptime()
	now := seenAt{us, up, time.Duration(time.Now().UnixNano())}
	h, ok := parseHeartbeat(it.Value)
	if !ok || !deadlines.LooksDead(it.Age, h.age(time.Now()), h.ttl) {
		return false
	}
	rctx, cancel := d.requestFor(ctx)
	defer cancel()
	said, err := d.suspicion(rctx, id)
	if err != nil {
		return false
	}
	s, same := parseSuspicion(said.Value, it.Version)
	first, seen := s.since(now, h.ttl)
	switch {
	case it.Age >= 0:
		first = max(first, up-it.Age)
	case said.Made > 0:
		first = max(first, up-said.Made)
	}
	still := deadlines.Standstill{First: first, Since: first}
	switch {
	case same && known && seen && still.Left(asked, h.ttl) == 0:
		return true
	case same && deadlines.Convict(it.Age, h.age(time.Now()), said.Age, h.ttl):
		return true
	case same && (seen || !known), known && !s.add(now, said, h.ttl):
		return false
	}
	d.store.Swap(rctx, Swap{Key: said.Key, Old: said.Version, Next: NewVersion(), Value: s.encode(), By: d.self})
	return false
}

// suspicion reads what is said of a session that looks dead. Whoever can spoil one register must not keep the dead in line, so then
// it stands in another, with a name that nobody guesses.
func (d *Driver) suspicion(ctx context.Context, id sessionID) (Item, error) {
	said, err := d.store.Read(ctx, suspectKey+id.String())
	if !errors.Is(err, driver.ErrDenied) {
		return said, err
	}
	other := suspectKey + id.String() + "-"
	random := NewVersion()
	said = Item{Key: other + hex.EncodeToString(random[:]), Age: -1}
	err = d.store.List(ctx, other, func(it Item) bool {
		if len(it.Value) < len(it.Version) { // not what we write either
			return true
		}
		said = it
		return false
	})
	return said, err
}

// unkept reports whether nobody keeps a session just now.
func (d *Driver) unkept(ctx context.Context, id sessionID) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	return d.presence.Unkept(ctx, id.key()) == nil
}
