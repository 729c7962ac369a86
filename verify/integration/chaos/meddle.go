package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"path"
	"sync"
	"time"

	gozk "github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// meddled writes to the contenders' nodes of our lines, one every few milliseconds, as an operator does by hand or a
// neighbour who has the right. It changes what a node says, and neither its kind nor its session.
func meddled(s *scene) (func() error, error) {
	write := s.writeToZooKeeper
	if s.history != nil {
		write = s.writeToEtcd
	}
	random := newRandom(s.random.Uint64())
	ctx, cancel := context.WithCancel(context.Background())
	var failed error
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			if failed = write(random); failed != nil {
				return
			}
			time.Sleep(time.Duration(random.Int64N(int64(10 * time.Millisecond))))
		}
	})
	return func() error {
		cancel()
		done.Wait()
		return failed
	}, nil
}

func (s *scene) writeToEtcd(random *rand.Rand) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := s.history.client
	there, err := client.Get(ctx, "turnwise/", clientv3.WithPrefix())
	if err != nil || len(there.Kvs) == 0 {
		return err
	}
	kv := there.Kvs[random.IntN(len(there.Kvs))]
	if _, _, ok := etcdPlace(string(kv.Key)); !ok {
		return nil
	}
	// What the owner has changed meanwhile is not undone: then it is another kind, perhaps.
	_, err = client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision)).
		Then(clientv3.OpPut(string(kv.Key), string(kv.Value)+"!", clientv3.WithIgnoreLease())).Commit()
	return err
}

func (s *scene) writeToZooKeeper(random *rand.Rand) error {
	conn := s.stamps.conns[0]
	lines, _, err := conn.Children("/turnwise")
	if err != nil || len(lines) == 0 {
		return ignoring(err)
	}
	line := path.Join("/turnwise", lines[random.IntN(len(lines))])
	names, _, err := conn.Children(line)
	if err != nil || len(names) == 0 {
		return ignoring(err)
	}
	node := path.Join(line, names[random.IntN(len(names))])
	if !contender.MatchString(node) {
		return nil
	}
	said, stat, err := conn.Get(node)
	if err == nil {
		_, err = conn.Set(node, append(said, '!'), stat.Version)
	}
	return ignoring(err)
}

// ignoring ignores that a node has just gone or changed, and that a member is away for a moment.
func ignoring(err error) error {
	if errors.Is(err, gozk.ErrNoNode) || errors.Is(err, gozk.ErrBadVersion) || errors.Is(err, gozk.ErrConnectionClosed) || errors.Is(err, gozk.ErrNoServer) {
		return nil
	}
	return err
}
