package register

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// sweeper clears away what no waiter does: nodes of a process that died at the end of a line, registers of sessions, lines
// that have been empty for long. One process at a time does that for all. It renews the register "sweeper", and another
// process takes over when that stands still.
type sweeper struct {
	d       *Driver
	seen    map[sessionID]*sighting
	empty   map[string]emptied // lines
	held    Version            // our version of the sweeper's register; zero: it is not ours
	other   sighting
	swept   time.Time     // when the lines were looked through last
	took    time.Duration // and how long that took
	started sync.Once
}

type emptied struct {
	version Version
	since   time.Time
}

const (
	// A line is deleted when it has been empty for longer than any request may be late. A late request to make the line would
	// otherwise find it missing, as it expects.
	lateAtMost = time.Hour

	// The lines are looked through when a session was found to be over, and about once in a TTL anyway: a swap that a session
	// sent before it ended may be applied after its nodes were removed. These regular sweeps take at most one part in
	// sweepPart of the time.
	sweepPart = 20
)

// sweep starts the sweeper, once.
func (d *Driver) sweep() {
	d.sweeper.started.Do(func() {
		d.sweeper.d = d
		d.sweeper.seen = make(map[sessionID]*sighting)
		d.sweeper.empty = make(map[string]emptied)
		d.life.Go(d.sweeper.run)
	})
}

func (s *sweeper) pause() time.Duration { return sweepPause(s.d.cfg.ttl) }

func sweepPause(ttl time.Duration) time.Duration {
	return min(max(ttl/renewals, 100*time.Millisecond), 5*time.Second)
}

func (s *sweeper) run() {
	ctx := s.d.life.Context()
	for driverkit.Sleep(ctx, driverkit.Jitter(s.pause())) == nil {
		if mine, err := s.mine(ctx); err != nil || !mine {
			if err != nil && ctx.Err() == nil {
				s.d.saw(err)
			}
			continue
		}
		if err := s.round(ctx); err != nil && ctx.Err() == nil {
			s.d.saw(s.d.failed(ctx, err))
		}
	}
	s.resign()
}

// mine renews the sweeper's register, or takes it over.
func (s *sweeper) mine(ctx context.Context) (bool, error) {
	sent := time.Now()
	if s.held.IsZero() {
		rctx, cancel := s.d.requestFor(ctx)
		defer cancel()
		it, err := s.d.store.Read(rctx, sweeperKey)
		if err != nil {
			return false, s.d.failed(ctx, err)
		}
		if !it.Version.IsZero() {
			if s.other.version != it.Version {
				s.other = sighting{version: it.Version, first: time.Now()}
			}
			if h, ok := parseHeartbeat(it.Value); !ok || sent.Sub(s.other.first) < 3*max(sweepPause(h.ttl), s.pause()) {
				return false, nil
			}
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
}

// round ends the sessions that are dead, and removes what they leave behind.
func (s *sweeper) round(ctx context.Context) error {
	standing := make(map[sessionID]bool)
	type candidate struct {
		id      sessionID
		version Version
	}
	var dead []candidate
	sent := time.Now()
	err := s.d.store.List(ctx, sessionKey, func(it Item) bool {
		id, ok := parseSessionID(strings.TrimPrefix(it.Key, sessionKey))
		if !ok {
			return true
		}
		standing[id] = true
		if s.d.session(id) != nil {
			return true
		}
		seen := s.seen[id]
		if seen == nil {
			seen = &sighting{}
			s.seen[id] = seen
		}
		// The list may have been read long after it was asked for; what counts is when it was asked for.
		if is, _ := seen.see(it, sent, time.Now()); is || s.d.presence != nil { // the presence is asked below
			dead = append(dead, candidate{id, it.Version})
		}
		return true
	})
	if err != nil {
		return err
	}
	found := false
	for id := range s.seen {
		if !standing[id] {
			delete(s.seen, id)
			found = true // it has ended, and may have left nodes
		}
	}
	for _, c := range dead {
		if s.d.presence != nil && !s.d.unkept(ctx, c.id) {
			continue
		}
		switch err := s.d.end(ctx, c.id, c.version); {
		case err == nil:
			found = true
		case errors.Is(err, driver.ErrDenied): // perhaps another user's; that must not keep us from the others
			s.d.saw(err)
		case !errors.Is(err, ErrConflict):
			return err
		}
	}
	if pause := max(s.d.cfg.ttl, sweepPart*s.took); !found && time.Since(s.swept) < pause {
		return nil
	}
	s.swept = time.Now()
	empty, err := s.d.sweepLines(ctx)
	if errors.Is(err, driver.ErrDenied) {
		s.d.saw(err)
	} else if err != nil {
		return err
	}
	s.took = time.Since(s.swept)
	return s.reap(ctx, empty)
}

// sweepLines removes the nodes of sessions that have gone, and what else they left behind. It returns the lines that are
// empty. If something is denied it does the rest all the same.
func (d *Driver) sweepLines(ctx context.Context) (empty map[string]Version, err error) {
	lines := make(map[string]map[sessionID]bool)
	empty = make(map[string]Version)
	var data []Item
	// First the lines, then the sessions: a session is there before its nodes, so one that is missing is over.
	err = d.store.List(ctx, lineKey, func(it Item) bool {
		name := strings.TrimPrefix(it.Key, lineKey)
		switch l, err := readLine(it.Value); {
		case err != nil: // not ours to sweep
		case l.count > 0:
			members := make(map[sessionID]bool)
			for n := range l.nodes() {
				members[l.members[n.member].id] = true
			}
			lines[name] = members
		case len(l.value) == 0:
			empty[name] = it.Version
		}
		return true
	})
	for _, prefix := range []string{dataKey, suspectKey} {
		if err == nil {
			err = d.store.List(ctx, prefix, func(it Item) bool {
				data = append(data, Item{Key: it.Key, Version: it.Version})
				return true
			})
		}
	}
	standing := make(map[sessionID]bool)
	if err == nil {
		err = d.store.List(ctx, sessionKey, func(it Item) bool {
			if id, ok := parseSessionID(strings.TrimPrefix(it.Key, sessionKey)); ok {
				standing[id] = true
			}
			return true
		})
	}
	if err != nil {
		return nil, err
	}
	var denied error
	for name, members := range lines {
		prune := false
		for id := range members {
			if !standing[id] {
				d.buried(id)
				prune = true
			}
		}
		if prune {
			c, leave := d.clerk(name)
			err := c.await(ctx, d.prune(c))
			leave()
			if errors.Is(err, driver.ErrDenied) {
				denied = err
			} else if err != nil {
				return nil, err
			}
		}
	}
	for _, it := range data {
		if !standing[sessionOf(it.Key)] {
			rctx, cancel := d.requestFor(ctx)
			_, err := d.store.Swap(rctx, Swap{Key: it.Key, Old: it.Version, By: d.self})
			cancel()
			if errors.Is(err, driver.ErrDenied) {
				denied = err
			} else if err != nil && !errors.Is(err, ErrConflict) {
				return nil, err
			}
		}
	}
	return empty, denied
}

// reap deletes lines that have been empty for long.
func (s *sweeper) reap(ctx context.Context, empty map[string]Version) error {
	still := make(map[string]emptied)
	for name, version := range empty {
		e := s.empty[name]
		if e.version != version {
			e = emptied{version, time.Now()}
		}
		if still[name] = e; time.Since(e.since) > lateAtMost {
			if err := s.d.reap(ctx, name, version); err != nil {
				return err
			}
		}
	}
	s.empty = still
	return nil
}

// reap deletes a line's register if that is still the version that was seen to be empty for long: the sweep took a while.
func (d *Driver) reap(ctx context.Context, name string, version Version) error {
	c, leave := d.clerk(name)
	defer leave()
	it, err := d.readItem(ctx, c.key)
	if err != nil || it.Version != version {
		return err
	}
	l, err := parseLine(it.Value)
	if err != nil {
		return err
	}
	// A process that makes the line again reads the epoch after this.
	if err := d.passEpoch(max(epochOf(l.next), l.seq>>36)); err != nil {
		return err
	}
	passed := l.seq
	return c.await(ctx, c.want(newWish(nil, func(dr *draft, t try) error {
		if dr.was != nil && dr.count == 0 && dr.seq == passed {
			dr.dropped, dr.changed = true, true
		} else if !t.fresh {
			return errLook
		}
		return nil
	})))
}
