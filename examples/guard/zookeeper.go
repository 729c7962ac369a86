package main

import (
	"context"
	"errors"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/zk"
)

const znode = "/account-4711"

// znodeAccount is a node in ZooKeeper.
type znodeAccount struct{ conn *gozk.Conn }

func openZooKeeper(ctx context.Context, servers []string) (*coord.Client, account, error) {
	client, err := zk.Connect(ctx, servers)
	if err != nil {
		return nil, nil, err
	}
	conn, _, err := gozk.Connect(servers, 10*time.Second, gozk.WithLogInfo(false))
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	_, err = conn.Create(znode, nil, 0, gozk.WorldACL(gozk.PermAll))
	if err != nil && !errors.Is(err, gozk.ErrNodeExists) {
		conn.Close()
		client.Close()
		return nil, nil, err
	}
	return client, &znodeAccount{conn}, nil
}

func (a *znodeAccount) guard(h *coord.Hold) (func(context.Context, string) error, error) {
	check, err := zk.Guard(h)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, balance string) error {
		_, err := a.conn.Multi(check, &gozk.SetDataRequest{Path: znode, Data: []byte(balance), Version: -1})
		if errors.Is(err, gozk.ErrNoNode) {
			return errRefused
		}
		return err
	}, nil
}

func (a *znodeAccount) close() { a.conn.Close() }
