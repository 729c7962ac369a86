package kube

import (
	"context"
	"net/http"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Connect returns a client on a namespace; see [Open]. Closing the client closes everything.
func Connect(ctx context.Context, namespace string, opts ...Option) (*coord.Client, error) {
	c, err := configure(storekit.ToConnect, opts)
	if err != nil {
		return nil, err
	}
	return storekit.Connect(ctx, pkg, c.Settings, &Store{config: c}, func(ctx context.Context) (*Store, error) {
		return openAt(ctx, namespace, c)
	})
}

// New returns a driver that sends its requests through an HTTP client of the user's, which knows whom to trust and what to say
// of itself: client-go's rest.HTTPClientFor(config) returns such a client, and config.Host is the server. It goes past
// client-go's own limit of requests per second. The client stays open.
//
// The client should notice a dead connection within seconds (http.HTTP2Config's SendPingTimeout and PingTimeout), or a session
// may be lost together with the connection. client-go does after 45 s, unless HTTP2_READ_IDLE_TIMEOUT_SECONDS and
// HTTP2_PING_TIMEOUT_SECONDS in its environment say less.
func New(ctx context.Context, client *http.Client, server, namespace string, opts ...Option) (driver.Driver, error) {
	s, err := openWith(ctx, client, server, namespace, opts...)
	if err != nil {
		return nil, err
	}
	return s.Driver(s), nil
}
