package mysql

import (
	"context"
	"testing"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/docs"
)

func TestTheTableOfEnginesHasOurRow(t *testing.T) {
	if row := docs.MissingInEngines("coord/mysql", register.New(&Store{}).Strength()); row != "" {
		t.Errorf("docs/engines.md lacks\n%s", row)
	}
}

func TestConnectRefusesBeforeItDials(t *testing.T) {
	drivertest.RefusesBeforeItDials(t, func(ctx context.Context, address string, o coord.Option) (*coord.Client, error) {
		return Connect(ctx, "user@tcp("+address+")/d", WithClient(o))
	})
}
