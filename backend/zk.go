//go:build !turnwise_no_zk

package backend

import (
	"cmp"
	"context"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/zk"
)

func init() { services["zk"] = zooKeeper }

func zooKeeper(t *target) (connect, error) {
	hosts, err := t.addresses(2181)
	access, accessErr := t.access()
	if err := cmp.Or(err, accessErr, t.withSession()); err != nil {
		return nil, err
	}
	return func(ctx context.Context, c config) (*coord.Client, error) {
		password, tls, err := access.read()
		if err != nil {
			return nil, err
		}
		opts := []zk.Option{zk.WithLogger(c.log), zk.WithClient(c.client...)}
		if root := t.name(); root != "" {
			opts = append(opts, zk.WithRoot("/"+root))
		}
		if c.ttl > 0 {
			opts = append(opts, zk.WithTTL(c.ttl))
		}
		if access.user != "" {
			opts = append(opts, zk.WithDigestAuth(access.user, password))
		}
		if tls != nil {
			opts = append(opts, zk.WithTLS(tls))
		}
		if access.cleartext {
			opts = append(opts, zk.WithCleartextPassword())
		}
		return zk.Connect(ctx, hosts, opts...)
	}, nil
}
