package register

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// place is one of a session's nodes.
type place struct {
	s          *session
	n          uint64 // which one
	clerk      *clerk
	leaveClerk func()
	sight      driver.Sight
	bell       driverkit.Bell // rung when something was told
	puts       atomic.Uint64  // how often data was put aside
	forgotten  atomic.Uint64  // how much of that is deleted

	aside uint64 // which of those the node has now; for Amend

	mu      sync.Mutex
	shown   driver.Node
	last    bool
	seen    uint64 // the seq of the line that was shown last
	turn    uint64 // not zero: told, with this seq, that nobody stands in its way
	removed uint64 // not zero: told, with this seq, that it was removed
	stale   bool   // told to look again
}

func (p *place) Node() driver.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown
}

func (p *place) Last() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// heed takes in a notice.
func (p *place) heed(seq uint64, what byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if seq <= p.seen { // what was shown is newer
		return
	}
	switch what {
	case yourTurn:
		p.turn = seq
	case youAreGone:
		p.removed = seq
	case lookAgain:
		p.stale = true
	}
	p.bell.Ring()
}

// doubt has the place look, since something may have been told and lost.
func (p *place) doubt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stale = true
	p.bell.Ring()
}

// told returns what was told, and resets stale.
func (p *place) told() (turn, stale, removed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	turn, stale, removed = p.turn > 0, p.stale, p.removed > 0
	p.stale = false
	if turn && p.shown.Kind == rules.Reader && p.sight.Sees(rules.Reader) { // it wants to see more than a reader does
		turn, stale = false, true
		p.turn = 0
	}
	return turn, stale, removed
}

func (p *place) Await(ctx context.Context, wait []driver.Node) ([]driver.Node, driver.Change, error) {
	s := p.s
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	poll := s.d.polling()
	watch := time.Now().Add(s.d.patience())
	var stop func()
	defer func() {
		if stop != nil {
			stop()
		}
	}()
	for {
		if err := s.life.Stopped(ctx); err != nil {
			return nil, driver.Looked, err
		}
		turn, stale, removed := p.told()
		switch {
		case removed:
			return nil, driver.Looked, driver.ErrRemoved
		case turn:
			return nil, driver.Gone, nil
		case stale:
			ahead, how, changed, err := p.look(ctx, wait, poll)
			if changed || err != nil {
				return ahead, how, err
			}
			continue
		}
		pause := poll.next()
		if !poll.mute {
			pause = driverkit.Jitter(driverkit.PollPause(poll.least, int(s.waiting.Load())))
		}
		if stop == nil {
			pause = min(pause, max(time.Until(watch), 0))
		}
		if !p.rest(ctx, pause) {
			continue
		}
		if stop == nil && !time.Now().Before(watch) {
			stop = s.d.watchOver(p.clerk, wait)
			continue
		}
		p.doubt()
	}
}

// rest waits until something is told, or for pause. It reports whether the whole pause has passed.
func (p *place) rest(ctx context.Context, pause time.Duration) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-p.bell:
	case <-ctx.Done():
	case <-p.s.life.Done():
	case <-t.C:
		return true
	}
	return false
}

// look looks at the line. changed reports whether one of those waited for has gone, or is not as it was.
func (p *place) look(ctx context.Context, wait []driver.Node, poll *polling) (ahead []driver.Node, how driver.Change, changed bool, err error) {
	l, me, err := p.find(ctx)
	if err != nil {
		return nil, driver.Looked, false, err
	}
	p.mu.Lock()
	p.seen = max(p.seen, l.seq)
	p.mu.Unlock()
	here, gone := make(map[string]bool, len(wait)), false
	poll.further = -1
	for n := range l.nodes() {
		if n.token >= me.token {
			break
		}
		poll.further++
		for _, w := range wait {
			if uint64(w.Token) == n.token {
				here[w.ID] = l.id(n).String() == w.ID
			}
		}
	}
	for _, w := range wait {
		same, stands := here[w.ID]
		gone = gone || !stands
		changed = changed || !same
	}
	if !changed {
		return nil, driver.Looked, false, nil
	}
	if how = driver.Amended; gone {
		how = driver.Gone
	}
	return l.ahead(p.clerk.name, me.token, p.sight), how, true, nil
}

// find looks for the place in the line. If it is not there it was removed, or its session is over.
func (p *place) find(ctx context.Context) (*line, node, error) {
	l, err := p.s.lookAt(ctx, p.clerk)
	if err != nil {
		return nil, node{}, err
	}
	if l != nil {
		if me, ok := l.find(p.s.id, p.n); ok {
			return l, me, nil
		}
	}
	if err := driverkit.Doubt(ctx, p.s.life, p.s.alive); err != nil {
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
			// It hears of a removal even while it looks.
			err := p.bell.Unless(ctx, func(ctx context.Context) error {
				_, _, err := p.find(ctx)
				return err
			})
			if err != nil {
				return err
			}
			continue
		}
		if p.rest(ctx, driverkit.Jitter(driverkit.PollPause(least, int(s.waiting.Load())))) {
			p.doubt()
		}
	}
}

func (p *place) Amend(ctx context.Context, kind string, data []byte) error {
	s := p.s
	if err := s.life.Stopped(ctx); err != nil {
		return err
	}
	was := p.Node()
	aside := p.aside
	if !bytes.Equal(data, was.Data) {
		var err error
		if aside, err = p.putAside(ctx, data); err != nil {
			return err
		}
	}
	var me node
	w := newWish(s, func(d *draft, t try) error {
		n, ok := d.find(s.id, p.n)
		switch {
		case !ok && t.fresh:
			return driver.ErrRemoved
		case !ok:
			return errLook
		case d.kinds[n.kind] == kind && bytes.Equal(n.data, inside(data)) && n.aside == aside:
			if me = n; !t.fresh { // such an amendment is made to hear that the node stands
				return errLook
			}
			return nil
		}
		me = d.amend(n, kind, inside(data), aside)
		return nil
	})
	w.grows = true
	if err := p.change(ctx, w); err != nil {
		return err
	}
	p.mu.Lock()
	p.shown.ID, p.shown.Kind, p.shown.Data = nodeID{s.id, p.n, me.rev}.String(), kind, bytes.Clone(data)
	p.mu.Unlock()
	p.aside = aside
	if old := p.puts.Load(); old > 0 {
		if aside == 0 {
			aside = old + 1
		}
		s.life.Go(func() { p.forgetAside(aside) })
	}
	return nil
}

// change has a wish carried out that needs the node. If the node is not there it was removed, or its session is over.
func (p *place) change(ctx context.Context, w *wish) error {
	err := p.clerk.await(ctx, p.clerk.want(w))
	if err == driver.ErrRemoved {
		if ended := p.s.alive(ctx); ended != nil {
			return ended
		}
	}
	return err
}

func (p *place) Leave(ctx context.Context, _ bool) error {
	if err := p.s.life.Why(); err != nil {
		return err
	}
	w := p.goAway()
	select {
	case <-w.done:
		return w.err
	case err := <-w.said:
		return p.s.life.Verdict(err)
	case <-ctx.Done():
		return p.s.life.Stopped(ctx)
	case <-p.s.life.Done():
		return p.s.life.Why()
	}
}

// goAway takes the node away, however long it takes.
func (p *place) goAway() *wish {
	w := p.clerk.want(newWish(p.s, func(d *draft, _ try) error {
		d.remove(1, left, func(n node) bool { return n.n == p.n && d.members[n.member].id == p.s.id })
		return nil
	}))
	if !p.s.life.Errand(func() {
		defer p.exit()
		select {
		case <-w.done:
			p.forgetAside(p.puts.Load() + 1)
		case <-p.s.life.Done():
		}
	}) {
		p.exit()
	}
	return w
}
