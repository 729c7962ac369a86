package postgres

import (
	"context"
	"testing"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestTheTableOfEnginesHasOurRow(t *testing.T) {
	storecheck.HasRow(t, "coord/postgres", register.New(&Store{}).Strength())
}

func TestConnectRefusesBeforeItDials(t *testing.T) {
	drivertest.RefusesBeforeItDials(t, func(ctx context.Context, address string, o coord.Option) (*coord.Client, error) {
		return Connect(ctx, "postgres://user@"+address+"/d", WithClient(o))
	})
}
