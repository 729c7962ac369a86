package zk

import (
	"context"
	"errors"

	gozk "github.com/go-zookeeper/zk"
)

// list is what a directory holds, in no order, with the directory's own data.
type list struct {
	names []string
	stat  *gozk.Stat
}

func listChildren(c *gozk.Conn, dir string) (list, error) {
	names, stat, err := c.Children(dir)
	if err != nil {
		return list{}, err // only then are the results whole
	}
	return list{names, stat}, nil
}

// children lists a directory as the session's server knows it, which is not before what the session did last.
func (s *session) children(ctx context.Context, dir string) ([]string, *gozk.Stat, error) {
	l, err := persist(ctx, func() (list, error) {
		return ask(ctx, s, func(c *gozk.Conn) (list, error) { return listChildren(c, dir) })
	})
	return l.names, l.stat, explain(err, "listing", dir, "READ", "")
}

var errMoved = errors.New("the connection changed between two requests")

// freshChildren lists a directory as the leader knows it now.
func (s *session) freshChildren(ctx context.Context, dir string) ([]string, *gozk.Stat, error) {
	l, err := persist(ctx, func() (list, error) {
		return ask(ctx, s, func(c *gozk.Conn) (list, error) {
			before := s.epoch.Load()
			if _, err := c.Sync(dir); err != nil {
				return list{}, err
			}
			l, err := listChildren(c, dir)
			if s.epoch.Load() != before {
				return list{}, errMoved // another server may lag behind the one that was told to catch up
			}
			return l, err
		})
	})
	return l.names, l.stat, explain(err, "listing", dir, "READ", "")
}
