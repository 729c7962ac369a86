package register

import (
	"context"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

func (p *place) Await(ctx context.Context, wait []driver.Node) ([]driver.Node, error) {
	p.s.await(1)
	ahead, err := p.await(ctx, wait)
	p.s.await(-1)
	if err != nil {
		return nil, err
	}
	return p.rise(ctx, ahead)
}

// rise has the session rise if nobody may enter on it, and returns who is ahead then. If there was trouble, it looks: what was seen or told
// before may be of another disk. It returns an error if the place was removed meanwhile: if that was told, if somebody says so and it is
// true, or if the line does not know of the place.
func (p *place) rise(ctx context.Context, ahead []driver.Node) ([]driver.Node, error) {
	if p.s.mayEnter() {
		return ahead, nil
	}
	shaken := p.s.isShaken()
	if err := p.s.rise(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	removed, alarmed := p.removed > 0, p.alarms > p.answered
	p.mu.Unlock()
	if !removed && (alarmed || shaken) {
		l, me, err := p.find(ctx, p.s.alive)
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		if removed = p.removed > 0; shaken {
			ahead = l.ahead(p.clerk.name, me.token, p.sight)
			p.seen, p.turn, p.stale = l.seq, 0, true
		}
		p.mu.Unlock()
	}
	if removed {
		return nil, driver.ErrRemoved
	}
	return ahead, nil
}

func (p *place) await(ctx context.Context, wait []driver.Node) ([]driver.Node, error) {
	s := p.s
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	poll := s.d.polling()
	watch := time.Now().Add(s.d.patience())
	var stop func()
	head := headWatch{d: s.d, c: p.clerk}
	defer func() {
		head.is("")
		if stop != nil {
			stop()
		}
	}()
	for {
		if err := s.life.Stopped(ctx); err != nil {
			return nil, err
		}
		turn, stale, removed := p.told()
		switch {
		case removed:
			return nil, driver.ErrRemoved
		case turn:
			return nil, nil
		case stale:
			ahead, changed, err := p.look(ctx, wait, poll)
			if changed || err != nil {
				return ahead, err
			}
			head.is(poll.head)
			continue
		}
		pause := poll.next()
		if !poll.mute {
			pause = driverkit.Jitter(driverkit.PollPause(poll.told(), int(s.waiting.Load())))
		}
		if stop == nil {
			pause = min(pause, max(time.Until(watch), 0))
		}
		if !p.rest(ctx, pause) {
			continue
		}
		if stop == nil && !time.Now().Before(watch) && (poll.looked || !s.d.sure) { // who is called has to write
			stop = s.d.watchOver(p.clerk, wait, &poll.far)
			continue
		}
		p.doubt()
	}
}

// rest waits until something is told, or for pause. It reports whether the whole pause has passed.
func (p *place) rest(ctx context.Context, pause time.Duration) bool {
	t := time.NewTimer(max(pause, 1)) // none that is due: see scripts/test.sh
	defer t.Stop()
	hints := p.hints
	var calm <-chan time.Time
	if left := time.Until(p.calm); left > 0 {
		again := time.NewTimer(left)
		defer again.Stop()
		hints, calm = nil, again.C
	}
	for {
		select {
		case <-hints:
			p.calm = time.Now().Add(p.s.calm())
			p.doubt()
		case <-calm:
			hints, calm = p.hints, nil
			continue
		case <-p.bell:
		case <-ctx.Done():
		case <-p.s.life.Done():
		case <-t.C:
			return true
		}
		return false
	}
}

func (p *place) Watch(ctx context.Context) error {
	s := p.s
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	least := s.d.polling().least
	for {
		if err := s.life.Stopped(ctx); err != nil {
			return err
		}
		select {
		case <-p.bell: // else our own doubt would end the look that it asks for
		default:
		}
		_, stale, removed := p.told()
		if removed {
			return driver.ErrRemoved
		}
		if stale {
			if err := p.check(ctx); err != nil {
				return err
			}
			continue
		}
		if p.rest(ctx, driverkit.Jitter(driverkit.PollPause(least, int(s.waiting.Load())))) {
			p.doubt()
		}
	}
}

// check looks whether the place still stands. It hears of a removal even while it looks. A hint of one is as good as the
// news if nothing else is heard soon: a holder must not believe in its hold until a stalled link answers.
func (p *place) check(ctx context.Context) error {
	p.mu.Lock()
	alarmed := p.alarms > p.answered
	if alarmed && p.doubted.IsZero() {
		p.doubted = time.Now()
	}
	left := p.s.d.unanswered() - time.Since(p.doubted) // an earlier look may have been broken off
	p.patient = !alarmed
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.patient = false
		if !p.doubted.IsZero() { // something else was told meanwhile, and the look was broken off
			p.stale = true
		}
		p.mu.Unlock()
	}()
	life := p.s.life
	look := func(ctx context.Context) error {
		_, _, err := p.find(ctx, func(ctx context.Context) error { return driverkit.Doubt(ctx, life, p.s.alive) })
		return err
	}
	return p.bell.Unless(ctx, func(ctx context.Context) error {
		if alarmed {
			return driverkit.DoubtFor(ctx, life, left, look)
		}
		return look(ctx)
	})
}
