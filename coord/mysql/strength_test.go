package mysql

import (
	"testing"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/docs"
)

func TestTheTableOfEnginesHasOurRow(t *testing.T) {
	if row := docs.MissingInEngines("coord/mysql", register.New(&Store{}).Strength()); row != "" {
		t.Errorf("docs/engines.md lacks\n%s", row)
	}
}
