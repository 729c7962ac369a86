package postgres

import (
	"context"
	"testing"

	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

// The server lets twice as many connect, and some more, as may log in.
func TestWhoTakesAllConnectionsEndsNoHold(t *testing.T) {
	m := servers.Postgres(t, servers.Config("max_connections = 20")).Member(0)
	storecheck.RenewedInACrowd(t, m.Addr(), 130, func(ctx context.Context) (*Store, error) { return Open(ctx, m.URL(), WithLogger(logger(t))) })
}
