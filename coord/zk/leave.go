package zk

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

func (p *place) Leave(ctx context.Context, held bool) error {
	var told sync.Once
	try := func(ctx context.Context) error {
		err := p.takeAway(ctx, held)
		switch {
		case err == nil:
			p.gone()
		case errors.Is(err, driver.ErrDenied):
			told.Do(func() { p.session.tellStays(p.presentPath(), err) })
		}
		return err
	}
	err := driverkit.UntilGone(ctx, p.session.life, try, passing)
	if err != nil && err == ctx.Err() {
		err = p.session.stopped(ctx)
	}
	return err
}

// takeAway deletes the node under whatever path it has. An amendment that may still be under way moves the node from the
// older path to the newer. So once the older path is deleted the amendment fails, and if the older one has gone, only the
// newer can exist. The paths belong to this one node forever: the number in them is never used again.
func (p *place) takeAway(ctx context.Context, held bool) error {
	paths := p.allPaths()
	for i, nodePath := range paths {
		err := p.session.takeAway(ctx, nodePath, p.handsOver(held && i == len(paths)-1))
		if !errors.Is(err, gozk.ErrNoNode) {
			return explainRefusal(err, "leaving", nodePath, "DELETE", p.dir)
		}
	}
	return nil
}

// handsOver returns the connection on which it was seen that nobody is ahead; nil: others are told nothing of that.
func (p *place) handsOver(held bool) *wire.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !held {
		return nil
	}
	return p.by
}

// takeAway deletes a node. If it goes on the connection on which it was seen that nobody is ahead, whoever is behind is let in.
func (s *session) takeAway(ctx context.Context, nodePath string, handsOver *wire.Conn) error {
	if err := s.awaitUp(ctx); err != nil {
		return err
	}
	by := s.usable.Load()
	if handsOver == by {
		s.watches.handsOver(nodePath)
	}
	remove, removed := wire.Delete(nodePath)
	by.Send(remove)
	_, err := answer(ctx, s, removed)
	return err
}

// discard takes a node of ours away. It returns when that is done or refused, or the session has ended. After a refusal it
// goes on trying in the background.
func (s *session) discard(nodePath string) {
	s.roster.discarding(nodePath)
	err := driverkit.UntilGone(s.life.Context(), s.life, func(ctx context.Context) error {
		err := s.takeAway(ctx, nodePath, nil)
		if err == nil || errors.Is(err, gozk.ErrNoNode) {
			s.roster.discarded(nodePath)
			return nil
		}
		return err
	}, passing)
	if err != nil && !errors.Is(err, driver.ErrSessionEnded) {
		s.tellStays(nodePath, err)
	}
}

// tellStays logs a departure that is refused: the caller who gave up may not have waited for it.
func (s *session) tellStays(nodePath string, err error) {
	s.service.log.Warn("zk: a node stays until it may be taken away or the session ends", "node", nodePath, "err", err)
}

// audit looks twice, some time later, for nodes of a create that got no answer; while it may not look, it tries until it
// may. A server may still take requests from the broken connection at the moment it accepts the new one, and the node that
// such a straggler makes belongs to nobody. Nor does a node at the place's first path once the place has been left: it
// stands there if the service has gone back to a backup. If the place was amended, nothing is there.
func (j *joining) audit(p *place) {
	s := j.session
	s.life.Go(func() {
		defer s.roster.end(j.contender.guid)
		for _, after := range []time.Duration{200 * time.Millisecond, s.timeout() / 2} {
			err := driverkit.Sleep(s.life.Context(), driverkit.Jitter(after))
			for err == nil && j.takeBack(p) != nil {
				err = pause(s.life.Context(), driverkit.Slowly)
			}
			if err != nil {
				return
			}
		}
	})
}

// takeBack takes away whatever was made for this join, except the node that its place stands at.
func (j *joining) takeBack(p *place) error {
	l, err := j.session.freshChildren(j.session.life.Context(), j.dir)
	if errors.Is(err, gozk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	made, err := j.made(l.Names)
	for _, nodePath := range made {
		if p == nil || !j.session.roster.stands(p) || !slices.Contains(p.allPaths(), nodePath) {
			j.session.discard(nodePath)
		}
	}
	return err
}
