package nats

import (
	"context"
	"net/url"
	"slices"
	"strings"

	natsgo "github.com/nats-io/nats.go"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Connect returns a client on the server at an address, as [Open] takes it. Closing the client closes everything.
func Connect(ctx context.Context, address string, opts ...Option) (*coord.Client, error) {
	c, err := configure(storekit.ToConnect, opts)
	if err != nil {
		return nil, err
	}
	return storekit.Connect(ctx, pkg, c.Settings, &Store{config: c}, func(ctx context.Context) (*Store, error) {
		return openAt(ctx, address, c)
	})
}

// New returns a driver that connects as the user's own options of the client library say: whom to trust, and who we are. It is
// the options, not a connection, since each connection is looked at before it is used: behind one that is made anew there may be
// a server that has forgotten. So what they say about making a connection anew counts for nothing, nor do their callbacks and
// their prefix of inboxes. Closing the driver closes the connection.
func New(ctx context.Context, options natsgo.Options, opts ...Option) (driver.Driver, error) {
	c, err := configure(storekit.ToNew, opts)
	if err != nil {
		return nil, err
	}
	if c.tls != nil || c.credentials != "" || c.cleartext {
		return nil, pkg.Invalid("WithTLS, WithCredentials and WithCleartextPassword are for Connect and Open: the options that New is given say that")
	}
	if all := options.Servers; len(all) > 1 || len(all) == 1 && options.Url != "" && options.Url != all[0] {
		return nil, pkg.Invalid("the options name several servers: each has lines of its own, so processes would not meet")
	}
	for _, address := range append(slices.Clone(options.Servers), options.Url) {
		if !strings.Contains(address, "://") {
			address = "nats://" + address
		}
		if _, err := url.Parse(address); err != nil { // the library would say what it could not read, also a password
			return nil, pkg.Invalid("the options name a server by what is no URL: write a % in a password, for one, as %%25")
		}
	}
	s, err := open(ctx, c, options, "the server of the options")
	if err != nil {
		return nil, err
	}
	return c.Driver(s), nil
}
