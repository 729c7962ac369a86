package register

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// A session on which somebody only waits may rest, where no note is lost unsaid: it is renewed seldom, and its register says so.
// Nobody ends it before that long a time has passed. Its own deadline passes as usual, so nothing can be held on it. When a wait
// is over it rises: it is renewed before anybody enters.
//
// Whoever cannot wait so long calls it: he who would be next if it were dead, or to whom it seems that it should have been renewed
// by now. He swaps its register, in its owner's place, for one that does not rest, and tells it so. If it lives it renews itself at
// once. If it does not, all see it stand still, and it is over a TTL after the call, as any other would be.

// restTTLs is for how many TTLs a session stands that rests.
const restTTLs = 20

// lieDown reports whether the session may rest from now on: somebody waits on it, and nobody does anything else. It is one step, as
// await and enter are: whoever does not wait any more finds that it rests, and has it rise.
func (s *session) lieDown() bool {
	if !s.d.sure || s.d.mute.Load() || s.d.presence != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.awaiting == 0 || s.awaiting < len(s.places) {
		return false
	}
	s.rests.Store(true)
	return true
}

// await counts those who wait. by is 1 or -1.
func (s *session) await(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaiting += by
}

// stood is called when the session has been renewed.
func (s *session) stood(rest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touch()
	s.rests.Store(rest)
	if s.refused = nil; !rest {
		s.wake()
	}
}

// unrenewed is called when the session could not be renewed. If that was refused, whoever waits for it is told why.
func (s *session) unrenewed(sent time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused = nil; driver.IsLasting(err) {
		s.refused, s.asked = err, sent
		s.wake()
	}
}

// wake needs mu.
func (s *session) wake() {
	if s.risen != nil {
		close(s.risen)
		s.risen = nil
	}
}

// mayEnter reports whether somebody may enter on the session: it does not rest, and was renewed since there was trouble.
func (s *session) mayEnter() bool { return !s.rests.Load() && !s.isShaken() }

// rise has the session renewed until somebody may enter on it. A renewal that is sent from now on is enough, whatever fails meanwhile.
// Otherwise requests that always fail, of other lines, would keep everybody out.
func (s *session) rise(ctx context.Context) error {
	began := time.Now()
	for {
		s.mu.Lock()
		if s.mayEnter() || !s.rests.Load() && s.proven.Load() > int64(s.d.clock.own(began)) {
			s.mu.Unlock()
			return nil
		}
		if err := s.refused; err != nil && s.asked.After(began) {
			s.mu.Unlock()
			return fmt.Errorf("the session cannot be renewed: %w", err)
		}
		if s.risen == nil {
			s.risen = make(chan struct{})
		}
		risen := s.risen
		s.mu.Unlock()
		s.stir.Ring()
		select {
		case <-risen:
			continue
		case <-s.life.Done():
		case <-ctx.Done():
		}
		return s.life.Stopped(ctx)
	}
}

// touch notes that the store has answered.
func (s *session) touch() { s.heard.Store(int64(s.d.clock.own(time.Now()))) }

// Rests reports whether the session's deadline may have passed only because it rests: the store was heard from lately.
func (s *session) Rests() bool {
	lately := 2 * driverkit.PollPause(s.d.cfg.ttl, int(s.waiting.Load())) // who waits for much looks at each seldom
	return s.rests.Load() && s.d.clock.own(time.Now())-time.Duration(s.heard.Load()) < lately
}

// seeCalls looks whether the session was called, as long as it rests. It should have been told; but a way on which requests pass may have lost
// what it listens to. Whoever rests may be called, wherever he stands, so this is not left to those who wait to be next: and who waits
// for many lines looks at each too seldom. With a TTL of two seconds or more it is soon enough even if one request is lost.
func (s *session) seeCalls() {
	every := s.d.cfg.ttl * 5 / 8
	for pause := every; driverkit.Sleep(s.life.Context(), pause) == nil; {
		sent := s.d.clock.own(time.Now())
		if renewed := sent - time.Duration(s.proven.Load()); renewed < every {
			pause = every - renewed
			continue
		}
		if pause = every; s.rests.Load() && s.seeCall() != nil {
			pause /= 10
		}
	}
}

func (s *session) seeCall() error {
	rctx, cancel := s.d.requestFor(s.life.Context())
	defer cancel()
	it, err := s.d.store.Read(rctx, s.id.key())
	if err != nil {
		return s.d.failed(s.life.Context(), err)
	}
	if h, _ := parseHeartbeat(it.Value); !h.called.IsZero() {
		s.stir.Ring()
	}
	return nil
}

// call has a session that rests renew itself, or be over a TTL from now.
func (d *Driver) call(ctx context.Context, id sessionID, it Item) error {
	h, ok := parseHeartbeat(it.Value)
	if !ok || !h.rests() {
		return nil
	}
	rctx, cancel := d.requestFor(ctx)
	defer cancel()
	h.ttl, h.usual, h.called, h.at = h.usual, 0, it.Version, time.Now()
	_, err := d.store.Swap(rctx, Swap{Key: id.key(), Old: it.Version, Next: NewVersion(), Value: h.encode(), By: d.self,
		Notes: d.notes(recipient{id: id}, "", 0, []notice{{what: showYourself}})})
	if errors.Is(err, ErrConflict) { // it lives, or somebody else has called it
		return nil
	}
	return err
}
