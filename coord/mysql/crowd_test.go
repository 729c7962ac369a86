package mysql

import (
	"context"
	"testing"

	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestWhoTakesAllConnectionsEndsNoHold(t *testing.T) {
	m := servers.MariaDB(t, servers.Config("max_connections=20")).Member(0)
	storecheck.RenewedInACrowd(t, m.Addr(), 60, func(ctx context.Context) (*Store, error) { return Open(ctx, m.URL(), WithLogger(logger(t))) })
}
