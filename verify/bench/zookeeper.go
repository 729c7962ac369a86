package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/zk"
)

func zooKeeperContestants() []*Contestant {
	place := func(root string) func(string) string {
		return func(line string) string { return root + "/" + line }
	}
	return []*Contestant{
		{Name: "bare create + delete", Service: ZooKeeper, Kinds: []Kind{Lock}, Bare: true, Open: openBareZooKeeper},
		{Name: "turnwise", Service: ZooKeeper, Kinds: []Kind{Lock, Read, Write, Permit}, Ours: true, Place: place("/turnwise"),
			Open: func(ctx context.Context, s Setting) (Client, error) {
				c, err := zk.Connect(ctx, []string{s.Addr}, zk.WithTTL(s.Timeout), zk.WithClient(watching(s)))
				if err != nil {
					return nil, err
				}
				return ours(c), nil
			}},
		{Name: "zk.Lock", Service: ZooKeeper, Kinds: []Kind{Lock}, Place: place("/zklock"), Open: openZKLock},
		{Name: "Curator", Service: ZooKeeper, Kinds: []Kind{Lock, Read, Write, Permit}, Place: place("/curator"), Program: curator},
		{Name: "Kazoo", Service: ZooKeeper, Kinds: []Kind{Lock, Permit}, Place: place("/kazoo"), Program: kazoo},
	}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func dialZooKeeper(ctx context.Context, s Setting) (*gozk.Conn, error) {
	conn, events, err := gozk.Connect([]string{s.Addr}, s.Timeout, gozk.WithLogger(silent{}))
	if err != nil {
		return nil, err
	}
	for {
		select {
		case e := <-events:
			if e.State == gozk.StateHasSession {
				return conn, nil
			}
		case <-ctx.Done():
			conn.Close()
			return nil, fmt.Errorf("connect to %s: %w", s.Addr, ctx.Err())
		}
	}
}

// openBareZooKeeper creates an ephemeral sequential node for an acquire and deletes it for a release.
func openBareZooKeeper(ctx context.Context, s Setting) (Client, error) {
	conn, err := dialZooKeeper(ctx, s)
	if err != nil {
		return nil, err
	}
	acl := gozk.WorldACL(gozk.PermAll)
	make := func(path string) error {
		if _, err := conn.Create(path, nil, 0, acl); err != nil && !errors.Is(err, gozk.ErrNodeExists) {
			return err
		}
		return nil
	}
	if err := make("/bare"); err != nil {
		return nil, err
	}
	return alone{
		acquire: func(_ context.Context, w Want) (func() error, error) {
			dir := "/bare/" + w.Line
			path, err := conn.Create(dir+"/lock-", nil, gozk.FlagEphemeralSequential, acl)
			if errors.Is(err, gozk.ErrNoNode) {
				if err := make(dir); err != nil {
					return nil, err
				}
				path, err = conn.Create(dir+"/lock-", nil, gozk.FlagEphemeralSequential, acl)
			}
			if err != nil {
				return nil, err
			}
			return func() error { return conn.Delete(path, -1) }, nil
		},
		close: conn.Close,
	}, nil
}

func openZKLock(ctx context.Context, s Setting) (Client, error) {
	conn, err := dialZooKeeper(ctx, s)
	if err != nil {
		return nil, err
	}
	return alone{
		acquire: func(_ context.Context, w Want) (func() error, error) {
			l := gozk.NewLock(conn, "/zklock/"+w.Line, gozk.WorldACL(gozk.PermAll))
			var err error
			for range 10 { // it races for the creation of its directory
				if err = l.Lock(); !errors.Is(err, gozk.ErrNoNode) {
					break
				}
				time.Sleep(time.Millisecond)
			}
			if err != nil {
				return nil, err
			}
			return l.Unlock, nil
		},
		close: conn.Close,
	}, nil
}
