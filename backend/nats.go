//go:build !turnwise_no_nats

package backend

import (
	"cmp"
	"context"
	"errors"
	"net/url"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/nats"
)

func init() { services["nats"] = natses }

func natses(t *target) (connect, error) {
	root, monitor, credentials := t.params.text("root"), t.params.text("monitor"), t.params.text("credentials")
	host, err := t.address(4222)
	access, accessErr := t.access()
	if err := cmp.Or(err, accessErr, t.noPath(), t.withLongest()); err != nil {
		return nil, err
	}
	if t.user != "" && access.password == (password{}) {
		return nil, errors.New("the user has no password: add password-file=PATH; a token is a password without a user, as in nats://:token@host")
	}
	return func(ctx context.Context, c config) (*coord.Client, error) {
		secret, tls, err := access.read()
		if err != nil {
			return nil, err
		}
		opts := []nats.Option{nats.WithLogger(c.log), nats.WithClient(c.client...)}
		if root != "" {
			opts = append(opts, nats.WithRoot(root))
		}
		if monitor != "" {
			opts = append(opts, nats.WithMonitor(monitor))
		}
		if credentials != "" {
			opts = append(opts, nats.WithCredentials(credentials))
		}
		if c.ttl > 0 {
			opts = append(opts, nats.WithTTL(c.ttl))
		}
		if c.longest > 0 {
			opts = append(opts, nats.WithLongestTTL(c.longest))
		}
		if tls != nil {
			opts = append(opts, nats.WithTLS(tls))
		}
		if access.cleartext {
			opts = append(opts, nats.WithCleartextPassword())
		}
		u := url.URL{Scheme: "nats", Host: host}
		switch {
		case t.user != "":
			u.User = url.UserPassword(t.user, secret)
		case secret != "": // a token
			u.User = url.User(secret)
		}
		return nats.Connect(ctx, u.String(), opts...)
	}, nil
}
