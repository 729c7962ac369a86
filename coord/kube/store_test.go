package kube

import (
	"context"
	"os"
	"testing"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/docs"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// Words of the tests of all stores.
var (
	within = storecheck.Within
	logger = storecheck.Logger
	put    = storecheck.Put
	read   = storecheck.Read
)

// opened opens a store in the namespace "default", and closes it with the test.
func opened(t testing.TB, opts ...Option) *Store {
	t.Helper()
	return storecheck.Opened(t, func(ctx context.Context) (*Store, error) {
		return Open(ctx, "default", append([]Option{WithLogger(logger(t))}, opts...)...)
	})
}

func TestTheTableOfEnginesHasOurRow(t *testing.T) {
	if row := docs.MissingInEngines("coord/kube", register.New(&Store{}).Strength()); row != "" {
		t.Errorf("docs/engines.md lacks\n%s", row)
	}
}

func TestConnectRefusesBeforeItDials(t *testing.T) {
	drivertest.RefusesBeforeItDials(t, func(ctx context.Context, address string, o coord.Option) (*coord.Client, error) {
		return Connect(ctx, "default", WithServer("https://"+address), WithClient(o))
	})
}
