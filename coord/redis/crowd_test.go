package redis

import (
	"context"
	"testing"

	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestWhoTakesAllConnectionsEndsNoHold(t *testing.T) {
	m := servers.Redis(t, servers.Config("maxclients 40")).Member(0)
	storecheck.RenewedInACrowd(t, m.Addr(), 100, func(ctx context.Context) (*Store, error) {
		return Open(ctx, m.Addr(), WithLogger(storecheck.Logger(t)))
	})
}
