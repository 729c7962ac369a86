package zk

import (
	"context"
	"errors"
	"path"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

// mark is written into a node that hands over, as it goes. Nobody reads it; it is enough to see that it was written.
var mark = []byte("turnwise left\n")

func (p *place) Leave(ctx context.Context, held bool) error {
	try := func(ctx context.Context) error {
		err := p.takeAway(ctx, held)
		if err == nil {
			p.gone()
		}
		return err
	}
	err := driverkit.UntilGone(ctx, p.session.life, try, passing)
	if err != nil && err == ctx.Err() {
		err = p.session.stopped(ctx)
	}
	return err
}

// takeAway deletes the node under whatever path it has. An amendment that may still be under way goes from the older
// path to the newer. So once the older one is deleted the amendment fails, and if the older one has gone the newer is
// all there is. The paths belong to this one node forever: the number in them is never used again.
func (p *place) takeAway(ctx context.Context, held bool) error {
	paths := p.allPaths()
	for i, nodePath := range paths {
		err := p.session.takeAway(ctx, nodePath, held && i == len(paths)-1)
		if !errors.Is(err, gozk.ErrNoNode) {
			return explain(err, "leaving", nodePath, "DELETE", p.dir)
		}
	}
	return nil
}

func (s *session) takeAway(ctx context.Context, nodePath string, held bool) error {
	if err := s.awaitUp(ctx); err != nil {
		return err
	}
	w := s.usable.Load()
	if c, _ := parseContender(path.Base(nodePath)); held && c.markable() {
		depart, departed := wire.Depart(nodePath, mark)
		w.Send(depart)
		_, err := answer(ctx, s, departed)
		if !errors.Is(err, gozk.ErrNoAuth) { // the rights may allow the one and not the other
			return err
		}
	}
	remove, removed := wire.Delete(nodePath)
	w.Send(remove)
	_, err := answer(ctx, s, removed)
	return err
}

// discard takes a node of ours away. It returns when that is done or the session has ended.
func (s *session) discard(nodePath string) {
	s.roster.discarding(nodePath)
	_ = driverkit.UntilGone(s.life.Context(), s.life, func(ctx context.Context) error {
		err := s.takeAway(ctx, nodePath, false)
		switch {
		case err == nil, errors.Is(err, gozk.ErrNoNode):
			s.roster.discarded(nodePath)
			return nil
		case err != nil && !passing(err) && !errors.Is(err, driver.ErrSessionEnded):
			s.service.log.Warn("a node cannot be taken away and stays until the session ends", "node", nodePath, "error", err)
		}
		return err
	}, func(error) bool { return true })
}

// audit looks twice, some time later, for nodes of a create that got no answer. A server may still take requests from
// the connection that broke at the moment it takes the new one; what such a straggler makes belongs to nobody. It makes
// no difference whether the place itself was left or amended meanwhile: then nothing is at its first path.
func (j *joining) audit(p *place) {
	s, mine := j.session, ""
	if p != nil {
		mine = p.node.ID
	}
	s.life.Go(func() {
		defer s.roster.end(j.contender.guid)
		for _, after := range []time.Duration{200 * time.Millisecond, s.timeout() / 2} {
			if driverkit.Sleep(s.life.Context(), after) != nil {
				return
			}
			if l, err := s.freshChildren(s.life.Context(), j.dir); err == nil {
				for _, name := range j.contender.twins(l.Names) {
					if nodePath := j.dir + "/" + name; nodePath != mine {
						s.discard(nodePath)
					}
				}
			}
		}
	})
}
