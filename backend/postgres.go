//go:build !turnwise_no_postgres

package backend

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/postgres"
)

func init() { services["postgres"] = postgreses }

func postgreses(t *target) (connect, error) {
	table, listen, polling := t.params.text("table"), t.params.text("listen-url"), t.params.yes("polling")
	sslmode, owner := t.params.text("sslmode"), t.params.text("owner")
	hosts, err := t.addresses(5432)
	e, accessErr := t.access()
	if err := cmp.Or(err, accessErr, t.withLongest()); err != nil {
		return nil, err
	}
	if e.serverName != "" {
		return nil, errors.New("server-name: PostgreSQL takes the host's name; there is no other")
	}
	if t.name() == "" { // or PGDATABASE would choose it, and two shells would have two locks
		return nil, errors.New("it names no database: write postgres://user@host/database")
	}
	// These are the names that libpq has for them.
	q := url.Values{}
	for name, value := range map[string]string{"sslmode": sslmode, "sslrootcert": e.ca, "sslcert": e.cert, "sslkey": e.key} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if e.on && sslmode == "" {
		q.Set("sslmode", "verify-full")
	}
	return func(ctx context.Context, c config) (*coord.Client, error) {
		secret, err := e.password.read()
		if err != nil {
			return nil, err
		}
		opts := []postgres.Option{postgres.WithLogger(c.log), postgres.WithClient(c.client...)}
		if table != "" {
			opts = append(opts, postgres.WithTable(table))
		}
		if listen != "" {
			opts = append(opts, postgres.WithListenURL(listen))
		}
		if owner != "" {
			opts = append(opts, postgres.WithOwner(owner))
		}
		if e.cleartext {
			opts = append(opts, postgres.WithCleartextPassword())
		}
		if polling {
			opts = append(opts, postgres.WithPolling())
		}
		if c.ttl > 0 {
			opts = append(opts, postgres.WithTTL(c.ttl))
		}
		if c.longest > 0 {
			opts = append(opts, postgres.WithLongestTTL(c.longest))
		}
		u := url.URL{Scheme: "postgres", Host: strings.Join(hosts, ","), Path: t.path, RawQuery: q.Encode()}
		switch {
		case secret != "":
			u.User = url.UserPassword(t.user, secret)
		case t.user != "":
			u.User = url.User(t.user)
		}
		return postgres.Connect(ctx, u.String(), opts...)
	}, nil
}
