//go:build !turnwise_no_etcd

package backend

import (
	"cmp"
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/etcd"
)

func init() { services["etcd"] = etcds }

func etcds(t *target) (connect, error) {
	hosts, err := t.addresses(2379)
	access, accessErr := t.access()
	if err := cmp.Or(err, accessErr, t.withSession()); err != nil {
		return nil, err
	}
	return func(ctx context.Context, c config) (*coord.Client, error) {
		password, tls, err := access.read()
		if err != nil {
			return nil, err
		}
		opts := []etcd.Option{etcd.WithLogger(c.log), etcd.WithClient(c.client...)}
		if root := t.name(); root != "" {
			opts = append(opts, etcd.WithRoot(root))
		}
		if c.ttl > 0 {
			opts = append(opts, etcd.WithTTL(c.ttl))
		}
		if access.cleartext {
			opts = append(opts, etcd.WithCleartextPassword())
		}
		cfg := clientv3.Config{Endpoints: hosts, Username: access.user, Password: password, TLS: tls}
		return etcd.Connect(ctx, cfg, opts...)
	}, nil
}
