package coord_test

import (
	"os/exec"
	"strings"
	"testing"
)

// Who imports a recipe gets the standard library and nothing else.
func TestTheCoreNeedsTheStandardLibraryAlone(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}",
		"github.com/turnwise/turnwise/coord", "github.com/turnwise/turnwise/coord/driver",
		"github.com/turnwise/turnwise/coord/mem", "github.com/turnwise/turnwise/recipes/...").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, pkg := range strings.Fields(string(out)) {
		if !strings.HasPrefix(pkg, "github.com/turnwise/turnwise/") {
			t.Errorf("it needs %s", pkg)
		}
		for _, service := range []string{"/coord/zk", "/coord/etcd"} {
			if strings.HasSuffix(pkg, service) {
				t.Errorf("it knows the driver %s", pkg)
			}
		}
	}
}
