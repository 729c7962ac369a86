package memcached

import (
	"context"
	"testing"

	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestWhoTakesAllConnectionsEndsNoHold(t *testing.T) {
	m := server(t, "-t", "1", "-c", "100")
	storecheck.RenewedInACrowd(t, m.Addr(), 150, func(ctx context.Context) (*Store, error) { return Open(ctx, m.Addr(), WithLogger(logger(t))) })
}
