package etcd

import (
	"testing"

	"github.com/turnwise/turnwise/docs"
)

func TestTheTableOfEnginesHasItsLabel(t *testing.T) {
	if row := docs.MissingInEngines("coord/etcd", strength); row != "" {
		t.Errorf("engines.md lacks\n%s", row)
	}
}
