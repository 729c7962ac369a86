package main

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/etcd"
)

// keyAccount is a key in etcd.
type keyAccount struct{ client *clientv3.Client }

func openEtcd(_ context.Context, servers []string) (*coord.Client, account, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: servers, DialKeepAliveTime: 10 * time.Second})
	if err != nil {
		return nil, nil, err
	}
	d, err := etcd.New(client)
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return coord.NewClient(d), &keyAccount{client}, nil
}

func (a *keyAccount) guard(h *coord.Hold) (func(context.Context, string) error, error) {
	held, err := etcd.Guard(h)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, balance string) error {
		done, err := a.client.Txn(ctx).If(held).Then(clientv3.OpPut("account-4711", balance)).Commit()
		if err == nil && !done.Succeeded {
			err = errRefused
		}
		return err
	}, nil
}

func (a *keyAccount) close() { a.client.Close() }
