package register

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/deadlines"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// sweeper clears away what no waiter does: nodes of a process that died at the end of a line, registers of sessions, lines
// that have been empty for long. One process at a time does that for all. It renews the register "sweeper", and another
// process takes over when that stands still. Nobody waits for it: whoever waits for a session that has died, or watches its
// line, sees to that by himself. So it is in no hurry, and the others look seldom whether there is one.
type sweeper struct {
	d     *Driver
	next  time.Duration // when a session may be found dead, or the sweeper late, from the last look
	seen  map[sessionID]*sighting
	empty map[string]emptied // lines
	held  Version            // our version of the sweeper's register; zero: it is not ours
	other sighting
	swept time.Time          // when the lines were looked through last
	took  [2]time.Duration   // and how long that took, and the time before
	owed  bool               // a session has ended since
	rest  map[sessionID]Item // sessions that rest: others may have died with one that has

	ends, calls, reaps chores
	clearing           clearing
	gaveWay            time.Time // when it left the sweeping to others since nothing could be done
}

type emptied struct {
	version Version
	since   time.Time
}

// sweepPart is for the regular sweeps, which take at most one part in sweepPart of the time. The lines are looked through
// when a session was found to be over, and about once in a TTL anyway: a swap that a session sent before it ended may be
// applied after its nodes were removed.
const sweepPart = 20

// sweep starts the sweeper, once.
func (d *Driver) sweep() {
	d.sweeping.Do(func() {
		s := &sweeper{d: d, seen: make(map[sessionID]*sighting), empty: make(map[string]emptied)}
		d.life.Go(s.run)
	})
}

// A sweeper looks once in a leisure, unless a session may be found dead before that, and never more often than once in a haste.
func haste(ttl time.Duration) time.Duration {
	return min(max(ttl/renewals, 100*time.Millisecond), 5*time.Second)
}
func leisure(ttl time.Duration) time.Duration {
	return min(max(ttl, 100*time.Millisecond), 30*time.Second)
}

// sweeperLate is how many of its leisures another one is awaited. Who cannot sweep leaves it to others, and stays away for
// longer each time, in the end for longer than that: he may well be able to renew the register, and nobody else would ever
// sweep. The first times he is soon back, since perhaps there is nobody else.
const sweeperLate = 3

func (s *sweeper) run() {
	ctx, ttl := s.d.life.Context(), s.d.cfg.ttl
	pause, away := haste(ttl), haste(ttl)
	for driverkit.Sleep(ctx, driverkit.Jitter(pause)) == nil {
		pause = haste(ttl)
		mine, err := s.mine(ctx)
		if err == nil && mine {
			err = s.d.failed(ctx, s.round(ctx))
		}
		switch {
		case err != nil && ctx.Err() == nil:
			if s.d.saw(err); mine {
				s.resign()
				away = min(2*away, 2*sweeperLate*leisure(ttl))
				pause = away
			}
		case !mine:
			pause = max(s.next, pause)
		default:
			away = haste(ttl)
			if s.d.presence == nil {
				pause = min(max(s.next, pause), leisure(ttl))
			}
		}
	}
	s.resign()
}

// unreadable is the version of a sweeper's register that cannot be read. Whoever can spoil that one would keep everybody from sweeping;
// so in the end each sweeps for himself.
var unreadable = Version([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"))

// mine renews the sweeper's register, or takes it over.
func (s *sweeper) mine(ctx context.Context) (bool, error) {
	sent := time.Now()
	if s.held.IsZero() {
		rctx, cancel := s.d.requestFor(ctx)
		defer cancel()
		it, err := s.d.store.Read(rctx, sweeperKey)
		if errors.Is(err, driver.ErrDenied) {
			it, err = Item{Version: unreadable}, nil
		}
		if err != nil {
			return false, s.d.failed(ctx, err)
		}
		if !it.Version.IsZero() {
			if s.other.version != it.Version {
				s.other = sighting{version: it.Version, still: deadlines.Standstill{First: s.d.clock.own(time.Now())}}
			}
			h, ok := parseHeartbeat(it.Value) // one of another layout lives, too, as long as it is renewed
			s.next = sweeperLate * max(leisure(h.ttl), leisure(s.d.cfg.ttl))
			// Perhaps nobody lives for so long. A clock that is wrong makes two sweep, which harms nobody.
			age := it.Age
			if age < 0 && ok {
				age = h.age(time.Now())
			}
			if s.next -= max(s.d.clock.own(sent)-s.other.still.First, age); s.next > 0 {
				return false, nil
			}
		}
		if it.Version == unreadable {
			return true, nil
		}
		return s.take(ctx, it.Version, sent)
	}
	return s.take(ctx, s.held, sent)
}

func (s *sweeper) take(ctx context.Context, old Version, now time.Time) (bool, error) {
	rctx, cancel := s.d.requestFor(ctx)
	defer cancel()
	next := NewVersion()
	h := heartbeat{ttl: s.d.cfg.ttl, at: now}
	_, err := s.d.store.Swap(rctx, Swap{Key: sweeperKey, Old: old, Next: next, Value: h.encode(), By: s.d.self})
	switch {
	case err == nil:
		s.held = next
		return true, nil
	case errors.Is(err, ErrConflict):
		s.held = Version{}
		return false, nil
	}
	s.held = Version{} // it may be ours; then we take it over from ourselves
	return false, s.d.failed(ctx, err)
}

// resign leaves the sweeping to others at once.
func (s *sweeper) resign() {
	if s.held.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.d.timeout)
	defer cancel()
	s.d.store.Swap(ctx, Swap{Key: sweeperKey, Old: s.held, By: s.d.self})
	s.held = Version{}
}

// round does what there is to do. It fails if the store cannot be swept, or if nothing can be done of that: others may be able to. What
// failed before may be for nobody to do. So who has left it to others once need not do so again for long: what else there is would wait.
func (s *sweeper) round(ctx context.Context) error {
	var t toll
	if err := s.clear(ctx, &t); err != nil || t.err == nil {
		return err
	}
	if t.done == 0 && (t.fresh || time.Since(s.gaveWay) > lateAtMost) {
		s.gaveWay = time.Now()
		return t.err
	}
	s.d.saw(t.err)
	return nil
}

// clear ends the sessions that are dead, and removes what they leave behind.
func (s *sweeper) clear(ctx context.Context, t *toll) error {
	dead, gone, err := s.look(ctx)
	if err != nil {
		return err
	}
	ended, err := s.end(ctx, dead, t)
	if err != nil {
		return err
	}
	if err := s.call(ctx, ended, t); err != nil {
		return err
	}
	s.owed = s.owed || gone || ended
	pause := sweepPart * min(s.took[0], s.took[1]) // one that was held up does not count
	if !s.owed {
		pause = max(pause, s.d.cfg.ttl)
	}
	if time.Since(s.swept) < pause {
		return nil
	}
	s.swept, s.owed = time.Now(), false
	spent := t.spent
	empty, err := s.d.sweepLines(ctx, &s.clearing, t)
	if err != nil {
		return err
	}
	s.took = [2]time.Duration{s.took[1], time.Since(s.swept) - (t.spent - spent)} // others need not wait for what failed
	return s.reap(ctx, empty, t)
}

// candidate is a session that seems to be dead, and the version at which it does.
type candidate struct {
	id      sessionID
	version Version
}

// look looks at all sessions. gone reports that one has ended since the last look: it may have left nodes.
func (s *sweeper) look(ctx context.Context) (dead []candidate, gone bool, err error) {
	now := make(map[sessionID]*sighting) // what a list without an end has named is not kept
	sent := time.Now()
	s.next, s.rest = leisure(s.d.cfg.ttl), make(map[sessionID]Item)
	err = s.d.store.List(ctx, sessionKey, func(it Item) bool {
		id, ok := parseSessionID(strings.TrimPrefix(it.Key, sessionKey))
		if !ok || s.d.session(id) != nil {
			return true
		}
		seen := s.seen[id]
		if seen == nil {
			seen = &sighting{}
		}
		now[id] = seen
		// The list may have been read long after it was asked for; what counts is when it was asked for.
		is, again := seen.see(&s.d.clock, it, sent, time.Now())
		s.next = min(s.next, again)
		if seen.usual > 0 && len(it.Value) <= mostHeartbeat {
			s.rest[id] = it
		}
		if is || s.d.presence != nil { // the presence is asked when it is ended
			dead = append(dead, candidate{id, it.Version})
		}
		return true
	})
	if err != nil {
		s.rest = nil
		return nil, false, err
	}
	for id := range s.seen {
		gone = gone || now[id] == nil
	}
	s.seen = now
	return dead, gone, nil
}

// end ends those sessions that are still as they were, and reports whether it ended any.
func (s *sweeper) end(ctx context.Context, dead []candidate, t *toll) (ended bool, err error) {
	var keys []string
	seen := make(map[string]candidate)
	for _, c := range dead {
		keys = append(keys, c.id.key())
		seen[c.id.key()] = c
	}
	err = s.ends.do(ctx, s.d, keys, t, func(ctx context.Context, key string) (bool, error) {
		c := seen[key]
		if s.d.presence != nil && !s.d.unkept(ctx, c.id) {
			return false, nil
		}
		err := s.d.end(ctx, c.id, c.version)
		if errors.Is(err, ErrConflict) {
			return false, nil
		}
		if err == nil {
			ended = true
			s.clearing.isOver(c.id)
		}
		return true, err
	})
	return ended, err
}

// call calls sessions that rest: those that seem late or, when another one has died, all.
func (s *sweeper) call(ctx context.Context, all bool, t *toll) error {
	var keys []string
	for id, it := range s.rest {
		if h, _ := parseHeartbeat(it.Value); all || h.isOverdue(it) {
			keys = append(keys, id.key())
		}
	}
	return s.calls.do(ctx, s.d, keys, t, func(ctx context.Context, key string) (bool, error) {
		id, _ := parseSessionID(strings.TrimPrefix(key, sessionKey))
		return true, s.d.call(ctx, id, s.rest[id])
	})
}

// reap deletes lines that have been empty for long.
func (s *sweeper) reap(ctx context.Context, empty map[string]emptyLine, t *toll) error {
	still := make(map[string]emptied)
	var keys, old []string
	for name, l := range empty {
		e := s.empty[name]
		if e.version != l.version {
			e = emptied{l.version, time.Now()}
		}
		switch still[name] = e; {
		case time.Since(e.since) > lateAtMost:
			keys = append(keys, lineKey+name)
		case l.age > oldAtLeast:
			old = append(old, name)
		}
	}
	s.empty = still
	old, pass, err := s.provenOld(empty, old)
	if err := t.note(ctx, err); err != nil {
		return err
	}
	for _, name := range old {
		keys = append(keys, lineKey+name)
	}
	err = s.reaps.do(ctx, s.d, keys, t, func(ctx context.Context, key string) (bool, error) {
		name := strings.TrimPrefix(key, lineKey)
		return s.d.reap(ctx, name, still[name].version)
	})
	if err == nil && pass > 0 {
		err = t.note(ctx, s.d.passEpoch(pass))
	}
	return err
}

// provenOld returns those of the lines that are old by the store's clock which were so already when the epoch was raised, if that is as long ago:
// whoever still wants to make such a line, and has read an earlier epoch, is late by a day, even if the clock was set since, or before. For
// the others, pass is what the epoch has to pass.
func (s *sweeper) provenOld(empty map[string]emptyLine, names []string) (old []string, pass uint64, err error) {
	if len(names) == 0 {
		return nil, 0, nil
	}
	it, now, err := s.d.readEpoch()
	if err != nil || !it.Version.IsZero() && it.Age <= oldAtLeast {
		return nil, 0, err
	}
	for _, name := range names {
		switch l := empty[name]; {
		case l.epoch < now && l.age-it.Age > oldAtLeast:
			old = append(old, name)
		case l.epoch <= now+mostPassed && max(l.epoch, now) < maxToken>>tokenBits:
			pass = max(pass, l.epoch, now)
		}
	}
	return old, pass, nil
}
