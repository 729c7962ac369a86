package register

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// look looks at the line. changed reports whether one of those waited for has gone, or is not as it was.
func (p *place) look(ctx context.Context, wait []driver.Node, poll *polling) (ahead []driver.Node, changed bool, err error) {
	l, me, err := p.find(ctx, p.s.alive)
	if err != nil {
		return nil, false, err
	}
	p.mu.Lock()
	p.seen = max(p.seen, l.seq)
	p.mu.Unlock()
	p.s.touch()
	here := make(map[string]bool, len(wait))
	poll.further, poll.head = -1, ""
	near := false
	var others []driver.Node // ahead, and not waited for
	for n := range l.nodes() {
		if n.token >= me.token {
			break
		}
		if poll.further++; poll.further == 0 {
			poll.head = l.id(n).String()
		}
		waited := false
		for _, w := range wait {
			if uint64(w.Token) == n.token {
				here[w.ID] = l.id(n).String() == w.ID
				waited, near = true, near || poll.further == 0
			}
		}
		if !waited && p.s.d.sure { // elsewhere nobody rests, and a look at a long line should cost little
			others = append(others, driver.Node{Kind: l.kinds[n.kind]})
		}
	}
	if p.s.d.sure && !near {
		kind := l.kinds[me.kind]
		near = len(rules.For(kind)(driver.Node{Kind: kind}, others)) == 0
	}
	poll.far.Store(!near)
	poll.looked = true
	for _, w := range wait {
		changed = changed || !here[w.ID]
	}
	if !changed {
		return nil, false, nil
	}
	return l.ahead(p.clerk.name, me.token, p.sight), true, nil
}

// find looks for the place in the line. If it is not there it was removed, or its session is over: that is asked then.
func (p *place) find(ctx context.Context, ask func(context.Context) error) (*line, node, error) {
	p.mu.Lock()
	alarms := p.alarms
	p.mu.Unlock()
	l, err := p.s.lookAt(ctx, p.clerk)
	if err != nil {
		return nil, node{}, err
	}
	if l != nil {
		if me, ok := l.find(p.s.id, p.n); ok {
			p.mu.Lock()
			p.answered, p.doubted = max(p.answered, alarms), time.Time{}
			p.mu.Unlock()
			return l, me, nil
		}
	}
	if err := ask(ctx); err != nil {
		return nil, node{}, p.s.life.Verdict(err)
	}
	return nil, node{}, driver.ErrRemoved
}

// lookAt returns a line as it stands after the call was made; nil if its register is empty.
func (s *session) lookAt(ctx context.Context, c *clerk) (*line, error) {
	var l *line
	w := newWish(s, func(d *draft, t try) error {
		if !t.fresh {
			return errLook
		}
		l = d.was
		return nil
	})
	c.want(w)
	if err := c.await(ctx, w); err != nil {
		return nil, err // the clerk may be looking yet
	}
	return l, nil
}

// read returns a line as it stands. It rides out trouble as long as ctx lasts.
func (d *Driver) read(ctx context.Context, name string) (*line, error) {
	it, err := d.readItem(ctx, lineKey+name)
	if err != nil {
		return nil, err
	}
	if it.Version.IsZero() {
		return &line{}, nil
	}
	l, err := readLine(it.Value)
	if err != nil {
		return nil, fmt.Errorf("line %q: %w", name, err)
	}
	return l, nil
}

func (d *Driver) readItem(ctx context.Context, key string) (Item, error) {
	for tries := 0; ; tries++ {
		if err := ctx.Err(); err != nil {
			return Item{}, err
		}
		rctx, cancel := d.requestFor(ctx)
		it, err := d.store.Read(rctx, key)
		cancel()
		switch {
		case err == nil:
			return it, nil
		case driver.IsLasting(err) || d.life.Over():
			return Item{}, d.failed(ctx, err)
		}
		err = d.failed(ctx, err)
		if driverkit.Sleep(ctx, driverkit.Jitter(driverkit.Pause(tries))) != nil {
			if errors.Is(err, ctx.Err()) {
				return Item{}, err
			}
			return Item{}, fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// polling is how a waiter looks without having been told: now and then, since notes are not relied on alone, and in a store
// that does not tell, as often as it can without being a burden.
type polling struct {
	mute    bool
	least   time.Duration
	away    time.Duration // for those who are far: nobody tells them that they are no more
	further int           // how many are ahead
	head    string        // the ID of the first in line, if that is somebody else
	far     atomic.Bool   // those waited for may go, and it would not be next: none of them is first in line, and others are in its way
	looked  bool          // so that is known
	since   time.Time
}

const (
	quickest = time.Millisecond
	laziest  = 100 * time.Millisecond
)

func (d *Driver) polling() *polling {
	often := min(d.cfg.ttl/4, 2*time.Second)
	p := &polling{mute: d.mute.Load(), least: often, away: 4 * often, since: time.Now()}
	if d.sure {
		p.least = min(d.cfg.ttl*5/8, 30*time.Second)
		p.away = p.least * 8 / 5
	}
	return p
}

// next is how long to wait before the next look. In a mute store it is a sixteenth of the time for which nothing has
// changed, and more for those who stand further back.
func (p *polling) next() time.Duration {
	if !p.mute {
		return driverkit.Jitter(p.least)
	}
	pause := min(max(time.Since(p.since)/16, quickest), laziest) * time.Duration(1+min(p.further, 20))
	return driverkit.Jitter(min(pause, p.least))
}

// told is how long whoever is told waits before the next look. Only who waits for the first in line is in a hurry.
func (p *polling) told() time.Duration {
	if p.far.Load() {
		return p.away
	}
	return p.least
}

func (p *polling) reset() { p.since = time.Now() }
