//go:build linux || darwin

package file

import (
	"testing"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/docs"
)

func TestTheTableOfEnginesHasItsLabel(t *testing.T) {
	if row := docs.MissingInEngines("coord/file", register.New(&Store{}).Strength()); row != "" {
		t.Errorf("engines.md lacks\n%s", row)
	}
}
