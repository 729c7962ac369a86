package zk

import (
	"context"
	"errors"
	"path"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
)

// mark is what a node that hands over has written into it as it goes. Nobody reads it; that it was written tells.
var mark = []byte("turnwise left\n")

// Leave is described in package driver.
func (s *session) Leave(ctx context.Context, me driver.Node, held bool) error {
	st := s.standingAs(&me)
	if s.takeAway(ctx, st, held) == nil {
		s.left(st)
		return nil
	}
	said := make(chan error, 1)
	if !s.spawn(func() {
		s.leave(st, held, func(err error) {
			select {
			case said <- err:
			default:
			}
		})
	}) {
		return s.ending()
	}
	select {
	case err := <-said:
		return err
	case <-s.done:
		return s.ending()
	case <-ctx.Done():
		return s.given(ctx.Err())
	}
}

// leave goes on until the node is gone or the session has ended. It says nil, or what it is refused for.
func (s *session) leave(st *standing, held bool, say func(error)) {
	for try := 0; ; try++ {
		err := s.takeAway(s.ctx, st, held)
		if err == nil {
			s.left(st)
			say(nil)
			return
		}
		if !passing(err) {
			say(err)
			try = max(try, 20)
		}
		if errors.Is(err, driver.ErrSessionEnded) || sleep(s.ctx, backOff(try)) != nil {
			return
		}
	}
}

// takeAway deletes the node under whatever path it has. If an amendment may be under way that goes from the older path
// to the newer, so once the older is deleted it fails, and if the older is gone the newer is all there is. The paths are
// those of this one node, for ever: the number in them is not used again.
func (s *session) takeAway(ctx context.Context, st *standing, held bool) error {
	paths := st.paths()
	for i, p := range paths {
		err := s.takeAwayPath(ctx, p, held && i == len(paths)-1)
		if !errors.Is(err, gozk.ErrNoNode) {
			return explain(err, "leaving", p, "DELETE", path.Dir(p))
		}
	}
	return nil
}

func (s *session) takeAwayPath(ctx context.Context, nodePath string, held bool) error {
	w, err := s.link(ctx)
	if err != nil {
		return err
	}
	if c, _ := parseContender(path.Base(nodePath)); held && c.markable() {
		depart, departed := departRequest(nodePath, mark)
		w.send(depart)
		_, err := answer(ctx, s, departed)
		if !errors.Is(err, gozk.ErrNoAuth) { // there are rights that allow the one and not the other
			return err
		}
	}
	remove, removed := deleteRequest(nodePath)
	w.send(remove)
	_, err = answer(ctx, s, removed)
	return err
}
