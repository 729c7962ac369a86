package register

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// drift is the part of a TTL by which two clocks may differ after it.
const drift = 20

// isBounded reports whether nobody may use a longer TTL than all have agreed on. When a store has forgotten, the next one is
// granted after the longest TTL that anybody can have had. If that stood in the store it would be forgotten with all else, and
// a newcomer knows nothing but its own TTL. So it is a constant that is known without the store. Where a silent loss is
// no surprise, or the kernel tells who lives, it would protect nobody.
func isBounded(store Store) bool {
	_, kernel := store.(Presence)
	return !kernel && store.Strength().Restart != driver.Forgets
}

// CheckTTL returns an error if a driver on the store would refuse sessions with a TTL, with longest as for [WithLongestTTL].
// The store need not be open.
func CheckTTL(store Store, ttl, longest time.Duration) error {
	if ttl <= longest || !isBounded(store) {
		return nil
	}
	return fmt.Errorf("a TTL of %v is longer than the longest that others reckon with when the store has forgotten who holds, %v: "+
		"use a shorter one, or WithLongestTTL with all who share the store", ttl, longest)
}

// remembers waits until nobody can believe in a hold that the store has forgotten: for the longest TTL after the store may
// have forgotten something.
func (d *Driver) remembers(ctx context.Context) (lapses int, err error) {
	longest, err := d.longestTTL(ctx)
	if err != nil {
		return 0, d.failed(ctx, err)
	}
	for {
		sent := time.Now()
		m, lapses, err := d.recall(ctx)
		if err != nil {
			return 0, d.failed(ctx, err)
		}
		d.mu.Lock()
		wait := time.Until(d.forgotAt.Add(longest)) // others may not have noticed yet
		seen := sent.Sub(d.seenSince)
		d.mu.Unlock()
		if at, _ := d.lastTrouble(); m.For < 0 && at > 0 { // its clock is behind, and it may have been started anew since we saw it
			seen = min(seen, d.clock.own(sent)-at)
		}
		if m.For != Forever {
			wait = max(wait, longest+longest/drift-max(m.For, seen))
		}
		d.recovered.Store(int64(time.Since(d.clock.base) + max(wait, 0)))
		if wait <= 0 {
			return lapses, nil
		}
		d.cfg.log.Info("turnwise: the store may have forgotten who holds; nobody is granted until all TTLs have passed", "wait", wait)
		if err := driverkit.Sleep(ctx, wait); err != nil {
			return 0, fmt.Errorf("%w: the store may have forgotten who holds, so nobody is granted for another %v", err, wait.Round(time.Millisecond))
		}
	}
}

// Recovery returns for how much longer nobody can open a session, since the store may have forgotten who holds.
func (d *Driver) Recovery() time.Duration {
	return max(0, time.Duration(d.recovered.Load())-time.Since(d.clock.base))
}

// recall asks the store for its memory. The store tells only once that it has forgotten, so a call that finds another memory
// than before sees to it that all sessions hear of it. lapses are those that the answer takes into account.
func (d *Driver) recall(ctx context.Context) (m Memory, lapses int, err error) {
	rctx, cancel := d.requestFor(ctx)
	defer cancel()
	d.mu.Lock()
	lapses = d.lapses
	d.mu.Unlock()
	if m, err = d.store.Memory(rctx); err != nil {
		return m, lapses, err
	}
	d.mu.Lock()
	other, rest := d.memory != "" && d.memory != m.ID, len(d.sessions) > 0
	// For is short after a restart, too, though the memory is the same.
	if now := time.Now(); d.seenSince.IsZero() || d.memory != m.ID || m.For >= 0 && m.For < now.Sub(d.seenSince) {
		d.seenSince = now
	}
	d.memory = m.ID
	if other && !rest {
		d.lapses++
	}
	d.mu.Unlock()
	if other {
		lapses++
	}
	if other && rest {
		d.forgot(fmt.Errorf("%w: its memory is another", ErrForgot))
	}
	return m, lapses, nil
}

// forgot ends all sessions, since the store may have forgotten what they rest on.
func (d *Driver) forgot(err error) {
	d.mu.Lock()
	again := time.Since(d.forgotAt) < 10*time.Millisecond
	d.forgotAt = time.Now()
	d.lapses++
	for _, c := range d.clerks {
		c.mu.Lock()
		c.known, c.seen, c.stood = nil, 0, time.Time{}
		c.mu.Unlock()
	}
	d.mu.Unlock()
	if !again {
		d.cfg.log.Error("turnwise: all sessions end", "err", err)
	}
	for _, s := range d.allSessions() {
		s.life.End(d.openly(err))
	}
	ctx, cancel := d.request()
	defer cancel()
	if m, err := d.store.Memory(ctx); err == nil { // from now on it answers again
		d.mu.Lock()
		d.memory, d.seenSince = m.ID, time.Now()
		d.mu.Unlock()
	}
}

// openly returns what sessions are told. Where the kernel tells who lives, whoever comes waits for no TTL: see driver.ErrForgot.
func (d *Driver) openly(err error) error {
	if d.presence != nil {
		return errors.New(err.Error())
	}
	return err
}

// longestTTL returns the longest TTL that anybody can have. In a bounded store it makes sure that others say the same as we do.
// Otherwise it is the longest that anybody is known to use, and others are told of ours if that is longer.
func (d *Driver) longestTTL(ctx context.Context) (time.Duration, error) {
	for {
		ttl, err := d.settleTTL(ctx)
		if !errors.Is(err, ErrConflict) {
			return ttl, err
		}
	}
}

func (d *Driver) settleTTL(ctx context.Context) (time.Duration, error) {
	rctx, cancel := d.requestFor(ctx)
	defer cancel()
	it, err := d.store.Read(rctx, settingsKey)
	if errors.Is(err, ErrForgot) { // it answers after it was asked for its memory
		if _, _, err := d.recall(ctx); err != nil {
			return 0, err
		}
		it, err = d.store.Read(rctx, settingsKey)
	}
	if err != nil {
		return 0, err
	}
	if !it.Version.IsZero() {
		longest, ok := parseSettings(it.Value)
		if !ok {
			return 0, fmt.Errorf("register %q: %w", settingsKey, unread(it.Value, format))
		}
		switch {
		case longest == d.cfg.longest.Truncate(time.Millisecond), longest > d.cfg.longest && !d.bounded:
			return max(longest, d.cfg.longest), nil
		case d.bounded:
			return 0, fmt.Errorf("%w: the others reckon with %v as the longest TTL when the store has forgotten who holds, and we with %v: "+
				"say the same WithLongestTTL (longest-session in a URL) everywhere, or change it for all: stop them, and see WithLongestTTL about the register %q", driver.ErrDenied, longest, d.cfg.longest, settingsKey)
		}
	}
	if it.Version.IsZero() {
		if err := d.foundEpoch(rctx); err != nil {
			return 0, err
		}
	}
	_, err = d.store.Swap(rctx, Swap{Key: settingsKey, Old: it.Version, Next: NewVersion(), By: d.self,
		Value: binary.AppendUvarint([]byte{format}, uint64(d.cfg.longest.Milliseconds()))})
	return d.cfg.longest, err
}

// mostTTL is longer than any TTL that a store lets anybody set. Who waits for a longer one would wait for ever.
const mostTTL = 48 * time.Hour

// parseSettings reads the longest TTL.
func parseSettings(value []byte) (longest time.Duration, ok bool) {
	r := reader{rest: value}
	f, ms := r.byte(), r.number()
	return time.Duration(ms) * time.Millisecond, f == format && !r.bad && len(r.rest) == 0 && ms <= uint64(mostTTL.Milliseconds())
}
