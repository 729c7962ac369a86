//go:build !turnwise_no_redis

package backend

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/redis"
	"github.com/turnwise/turnwise/coord/redis/quorum"
)

func init() { services["redis"] = redises }

func redises(t *target) (connect, error) {
	master := t.params.text("master")
	root := t.params.text("root")
	port := 6379
	if master != "" {
		port = 26379
	}
	hosts, err := t.addresses(port)
	access, accessErr := t.access()
	if err := cmp.Or(err, accessErr, t.withLongest()); err != nil {
		return nil, err
	}
	if db, err := strconv.ParseUint(cmp.Or(t.name(), "0"), 10, 16); err != nil {
		return nil, fmt.Errorf("%q is no database: Redis numbers them, as in redis://host/0", t.name())
	} else if db != 0 && len(hosts) > 1 && master == "" {
		return nil, fmt.Errorf("database %d of several Redis: a quorum is in database 0", db)
	}
	return func(ctx context.Context, c config) (*coord.Client, error) {
		password, tls, err := access.read()
		if err != nil {
			return nil, err
		}
		opts := []redis.Option{redis.WithLogger(c.log), redis.WithClient(c.client...)}
		if root != "" {
			opts = append(opts, redis.WithRoot(root))
		}
		if c.ttl > 0 {
			opts = append(opts, redis.WithTTL(c.ttl))
		}
		if c.longest > 0 {
			opts = append(opts, redis.WithLongestTTL(c.longest))
		}
		if tls != nil {
			opts = append(opts, redis.WithTLS(tls))
		}
		if access.cleartext {
			opts = append(opts, redis.WithCleartextPassword())
		}
		one := func(host string) *url.URL {
			u := &url.URL{Scheme: "redis", Host: host, Path: "/" + cmp.Or(t.name(), "0")}
			if password != "" {
				u.User = url.UserPassword(access.user, password)
			}
			return u
		}
		switch {
		case master != "":
			u := one(hosts[0])
			u.RawQuery = url.Values{"master_set": {master}, "addr": hosts[1:]}.Encode()
			return redis.Connect(ctx, u.String(), opts...)
		case len(hosts) == 1:
			return redis.Connect(ctx, one(hosts[0]).String(), opts...)
		}
		all := make([]string, len(hosts))
		for i, host := range hosts {
			all[i] = one(host).String()
		}
		return quorum.Connect(ctx, all, opts...)
	}, nil
}
