package register

import (
	"context"
	"errors"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// vigil watches over a session of another process that somebody here waits for, and ends it when it is dead.
type vigil struct {
	clerks map[*clerk]int // where somebody waits for it
	stop   context.CancelFunc
}

// patience is how long a wait lasts before its vigil begins: most waits are over by then.
func (d *Driver) patience() time.Duration {
	if d.presence != nil {
		return 2 * time.Millisecond
	}
	return d.cfg.ttl / 16
}

// watchOver watches over the sessions of nodes in a line.
func (d *Driver) watchOver(c *clerk, nodes []driver.Node) (stop func()) {
	var ids []sessionID
	for _, n := range nodes {
		if id, ok := parseNodeID(n.ID); ok && d.session(id.session) == nil {
			ids = append(ids, id.session)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		v := d.vigils[id]
		if v == nil {
			v = &vigil{clerks: make(map[*clerk]int)}
			var ctx context.Context
			ctx, v.stop = context.WithCancel(d.life.Context())
			d.vigils[id] = v
			d.life.Go(func() { d.keepVigil(ctx, id, v) })
		}
		v.clerks[c]++
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, id := range ids {
			v := d.vigils[id]
			if v.clerks[c]--; v.clerks[c] == 0 {
				delete(v.clerks, c)
			}
			if len(v.clerks) == 0 {
				v.stop()
				delete(d.vigils, id)
			}
		}
	}
}

// keepVigil waits for a session to end, and then removes its nodes where somebody waits for them, as long as somebody does.
func (d *Driver) keepVigil(ctx context.Context, id sessionID, v *vigil) {
	for tries := 0; ; tries++ {
		err := d.awaitEnd(ctx, id)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			d.mu.Lock()
			var clerks []*clerk
			for c := range v.clerks {
				clerks = append(clerks, c)
			}
			d.mu.Unlock()
			for _, c := range clerks {
				d.prune(c)
			}
			tries = max(tries, driverkit.Slowly) // whoever still waits for it looked before, or was late to ask
		}
		if driverkit.Sleep(ctx, driverkit.Jitter(driverkit.Pause(tries))) != nil {
			return
		}
	}
}

// awaitEnd waits until a session is over. If the session is dead, awaitEnd ends it.
func (d *Driver) awaitEnd(ctx context.Context, id sessionID) error {
	if d.presence != nil {
		if err := d.presence.Unkept(ctx, id.key()); err != nil {
			return err
		}
	}
	var s sighting
	for {
		sent := time.Now()
		rctx, cancel := d.requestFor(ctx)
		it, err := d.store.Read(rctx, id.key())
		cancel()
		switch {
		case err != nil:
			return d.failed(ctx, err)
		case it.Version.IsZero():
			d.buried(id)
			return nil
		}
		dead, again := s.see(it, sent, time.Now())
		if d.presence != nil || dead {
			if err := d.end(ctx, id, it.Version); err == nil || !errors.Is(err, ErrConflict) {
				return err
			}
			continue
		}
		if err := driverkit.Sleep(ctx, again); err != nil {
			return err
		}
	}
}

// sighting is how long a session has been seen to stand still.
type sighting struct {
	version Version
	first   time.Time // when it was seen first
	since   time.Time // when it was renewed last, at the latest
}

// see takes in what a read has shown. The session is dead if, by the clocks, it was not renewed for a TTL, and if we
// ourselves have seen it stand still for longer than a living one does. The clocks alone do not tell: they are set forward,
// and machines that slept wake up, and then a session that was renewed a moment ago looks old. again is how long to wait
// until the next look can tell.
func (s *sighting) see(it Item, sent, answered time.Time) (dead bool, again time.Duration) {
	h, ok := parseHeartbeat(it.Value)
	if !ok {
		return false, time.Minute // another layout: not ours to end
	}
	if s.version != it.Version {
		*s = sighting{version: it.Version, first: answered, since: answered.Add(-h.age(it, answered))}
	}
	looked, stood := sent.Sub(s.first), sent.Sub(s.since)
	if looked >= h.silence() && stood >= h.ttl {
		return true, 0
	}
	return false, max(h.silence()-looked, h.ttl-stood, time.Millisecond)
}

// age is how long ago a session was renewed, by the store's clock and by the wall clocks of its owner and of this process;
// whichever says less is believed.
func (h heartbeat) age(it Item, now time.Time) time.Duration {
	return max(min(it.Age, now.Round(0).Sub(h.at)), 0)
}

// silence is longer than a living session that is not cut off is ever silent.
func (h heartbeat) silence() time.Duration { return h.ttl/renewals + h.ttl/renewals/2 }
