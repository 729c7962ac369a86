package nats

import (
	"context"
	"testing"

	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestWhoTakesAllConnectionsEndsNoHold(t *testing.T) {
	m := servers.NATS(t, servers.Config("max_connections: 30")).Member(0)
	storecheck.RenewedInACrowd(t, m.Addr(), 100, func(ctx context.Context) (*Store, error) {
		return Open(ctx, m.Addr(), WithLogger(storecheck.Logger(t)))
	})
}
