package etcd

import (
	"os"
	"strings"
	"testing"
)

func TestTheTableOfEnginesHasItsLabel(t *testing.T) {
	text, err := os.ReadFile("../../docs/engines.md")
	if err != nil {
		t.Fatal(err)
	}
	row := "\n| `coord/etcd`"
	for _, says := range strength.Aspects() {
		row += " | " + says
	}
	if !strings.Contains(string(text), row+" |\n") {
		t.Errorf("engines.md lacks%s |", row)
	}
}
