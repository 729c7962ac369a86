package zk

import (
	"context"
	"errors"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

// children lists a directory as the session's server knows it, no older than what the session last did.
func (s *session) children(ctx context.Context, dir string) (*wire.Listing, error) {
	return s.list(ctx, dir, false)
}

// freshChildren lists a directory as the leader knows it now.
func (s *session) freshChildren(ctx context.Context, dir string) (*wire.Listing, error) {
	return s.list(ctx, dir, true)
}

func (s *session) list(ctx context.Context, dir string, fresh bool) (*wire.Listing, error) {
	l, err := persist(ctx, s, func() (*wire.Listing, error) {
		if err := s.awaitUp(ctx); err != nil {
			return nil, err
		}
		return s.listAfter(dir, fresh).wait(ctx, s)
	})
	return l, explainRefusal(err, "listing", dir, "READ", "")
}

// watchedChildren lists a directory as children does, and asks to be told of the next change.
func (s *session) watchedChildren(ctx context.Context, dir string) (*wire.Listing, error) {
	l, err := persist(ctx, s, func() (*wire.Listing, error) {
		if err := s.awaitUp(ctx); err != nil {
			return nil, err
		}
		room := s.window.enter(ctx.Done(), s.life.Done(), dir)
		if room == nil {
			return nil, s.stopped(ctx)
		}
		list, listed := wire.List(dir, true, s.zxids.Load())
		by := s.usable.Load()
		by.Send(list.Then(func() { s.window.exit(room, 0) }))
		l, err := answer(ctx, s, listed)
		if err == nil {
			l.By = by
		}
		return l, err
	})
	return l, explainRefusal(err, "listing", dir, "READ", "")
}

func (s *session) exists(ctx context.Context, nodePath string) (bool, error) {
	return fetch(ctx, s, func(c *gozk.Conn) (bool, error) {
		there, _, err := c.Exists(nodePath)
		if errors.Is(err, gozk.ErrNoAuth) { // ZooKeeper 3.9.2 and newer answer so for a node that is there (ZOOKEEPER-2590)
			return true, nil
		}
		return there, err
	})
}

// owns reports whether a node is there and belongs to the session.
func (s *session) owns(ctx context.Context, nodePath string) (bool, error) {
	ours, err := fetch(ctx, s, func(c *gozk.Conn) (bool, error) {
		there, stat, err := c.Exists(nodePath)
		return there && stat.EphemeralOwner == s.identity.Load().ID, err
	})
	return ours, explainRefusal(err, "looking at", nodePath, "READ", "")
}

// show is read for those who only look: a node that may not be read stands in line all the same.
func (s *session) show(ctx context.Context, n *driver.Node) (last int64, gone bool, err error) {
	last, gone, err = s.read(ctx, n)
	if errors.Is(err, driver.ErrDenied) {
		s.service.log.Debug("zk: a node may not be read", "node", n.ID, "err", err)
		err = nil
	}
	return last, gone, err
}

// showWatched is show for a node that was listed. It asks nobody while the service reports no change of what was read last.
func (s *session) showWatched(ctx context.Context, n *driver.Node) (last int64, gone bool, err error) {
	now, known := s.watches.sight(n.ID, s.usable.Load())
	if known != nil {
		n.Owner, n.Data = known.owner, known.data
		return known.last, false, nil
	}
	if last, gone, err = s.show(ctx, n); err == nil && last > 0 {
		s.watches.keep(&seen{now, n.Owner, n.Data, last})
	}
	return last, gone, err
}

// read fills in what a node says about itself, and returns the transaction that wrote it.
func (s *session) read(ctx context.Context, n *driver.Node) (last int64, gone bool, err error) {
	data, err := s.get(ctx, n.ID)
	switch {
	case errors.Is(err, gozk.ErrNoNode):
		return 0, true, nil
	case errors.Is(err, wire.ErrTooLong): // so it is not one of ours
		return 0, false, nil
	}
	if err != nil {
		return 0, false, explainRefusal(err, "reading", n.ID, "READ", "")
	}
	n.Owner, n.Data = driver.DecodeCard(data.Bytes)
	return data.Last, false, nil
}

func (s *session) get(ctx context.Context, nodePath string) (wire.Data, error) {
	return persist(ctx, s, func() (wire.Data, error) {
		if err := s.enter(ctx); err != nil {
			return wire.Data{}, err
		}
		get, got := wire.Get(nodePath)
		s.usable.Load().Send(get.Then(s.exit))
		return answer(ctx, s, got)
	})
}

// anyVersion stands for whatever version a node has.
const anyVersion = -1

// toReplace reads what a write is to replace. Such a write names the version: the service may do it once more when later ones
// have been answered, for it keeps the requests of a connection in order, not those of a session, and a server may hand on
// what came on a connection that has broken. Whoever may not read must do without: the version is anyVersion.
func (s *session) toReplace(ctx context.Context, nodePath string) (wire.Data, error) {
	data, err := s.get(ctx, nodePath)
	if errors.Is(err, gozk.ErrNoAuth) || errors.Is(err, wire.ErrTooLong) {
		return wire.Data{Version: anyVersion}, nil
	}
	return data, err
}
