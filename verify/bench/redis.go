package main

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// What people would pick instead, on one redis-server: neither survives its loss.
func redisContestants() []*Contestant {
	return []*Contestant{
		{Name: "redsync", Service: Redis, Kinds: []Kind{Lock}, Open: openRedsync},
		{Name: "rueidislock", Service: Redis, Kinds: []Kind{Lock}, Open: openRueidislock},
	}
}

// openRedsync keeps redsync's default polling, 50 to 250 ms, but lets it try for as long as it takes.
func openRedsync(_ context.Context, s Setting) (Client, error) {
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr})
	sync := redsync.New(redsyncredis.NewPool(client))
	return alone{
		acquire: func(ctx context.Context, w Want) (func() error, error) {
			m := sync.NewMutex("redsync/"+w.Line, redsync.WithExpiry(10*time.Second), redsync.WithTries(1<<20))
			if err := m.LockContext(ctx); err != nil {
				return nil, err
			}
			return func() error {
				_, err := m.UnlockContext(context.WithoutCancel(ctx))
				return err
			}, nil
		},
		close: func() { client.Close() },
	}, nil
}

func openRueidislock(_ context.Context, s Setting) (Client, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{s.Addr}},
		KeyMajority:  1, // as many as there are servers
		KeyPrefix:    "rueidislock",
	})
	if err != nil {
		return nil, err
	}
	return alone{
		acquire: func(ctx context.Context, w Want) (func() error, error) {
			_, release, err := locker.WithContext(ctx, w.Line)
			if err != nil {
				return nil, err
			}
			return func() error { release(); return nil }, nil
		},
		close: locker.Close,
	}, nil
}
