package coord_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dialsNobody are the packages whose Connect has no server to dial, and why.
var dialsNobody = map[string]string{
	"coord/file":              "a directory is opened, and nobody is dialled",
	"coord/register/storekit": "its Connect is what those of the stores call",
}

// A suite that an author has to remember is forgotten once: whoever requires more than a service promises would then be refused
// only after the service was dialled, or not at all.
func TestWhoeverConnectsIsTriedForIt(t *testing.T) {
	found := 0
	for _, file := range filesWithin(t, "coord", func(name string) bool { return name == "connect.go" }) {
		text, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.ToSlash(filepath.Dir(file))
		if !strings.Contains(string(text), "\nfunc Connect") {
			continue
		}
		found++
		if dialsNobody[dir] != "" {
			continue
		}
		if !aTestHas(t, dir, "drivertest.RefusesBeforeItDials(") {
			t.Errorf("no test of %s calls drivertest.RefusesBeforeItDials, and there is no reason for that in dialsNobody", dir)
		}
		if !aTestHas(t, dir, "\nfunc ExampleConnect(") && !aTestHas(t, dir, "\nfunc Example()") {
			t.Errorf("%s has no example of Connect", dir)
		}
	}
	if found < 10 {
		t.Errorf("only %d packages connect: does it look in the right place?", found)
	}
}

// aTestHas reports whether a test of a package has a text.
func aTestHas(t *testing.T, dir, text string) bool {
	t.Helper()
	tests, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		b, err := os.ReadFile(test)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), text) {
			return true
		}
	}
	return false
}
