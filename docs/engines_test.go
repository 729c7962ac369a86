package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/coord/zk"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// The rows of modules of their own are checked there: see TestTheTableOfEnginesHasItsLabel in coord/etcd.
func TestTheTableOfEnginesIsThatOfTheLabels(t *testing.T) {
	service := mem.New()
	defer service.Close()
	servers, err := zk.New([]string{"localhost:2181"})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]driver.Strength{
		"coord/mem": service.Client().Driver().Strength(),
		"coord/zk":  servers.Strength(),
	} {
		if row := MissingInEngines(name, s); row != "" {
			t.Errorf("engines.md lacks\n%s", row)
		}
	}
	head := "|"
	for about := range servers.Strength().Aspects() {
		head += " | " + about
	}
	if !strings.Contains(engines, "\n"+head+" |\n") {
		t.Errorf("engines.md lacks\n%s |", head)
	}
}

func TestEveryDriverHasARowAndEveryRowADriver(t *testing.T) {
	drivers := map[string]bool{"coord/mem": true} // whose driver is in internal/memory
	sources, err := filepath.Glob("../coord/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	label := regexp.MustCompile(`(?m)^func \(.+\) Strength\(\) driver\.Strength`)
	for _, file := range sources {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "_test.go") && label.Match(source) {
			drivers["coord/"+filepath.Base(filepath.Dir(file))] = true
		}
	}
	rows := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(engines, -1) {
		if rows[row[1]] = true; !drivers[row[1]] {
			t.Errorf("engines.md has a row for %s, which is no driver", row[1])
		}
	}
	for d := range drivers {
		if !rows[d] {
			t.Errorf("engines.md has no row for %s", d)
		}
	}
}

func TestTheRefusalInTheTextIsTheOneThatIsReturned(t *testing.T) {
	service := mem.New()
	defer service.Close()
	c := service.Client(coord.Require(driver.Strength{Restart: driver.Remembers, Death: driver.ByTTL}))
	_, err := mutex.New(c, "orders").Lock(t.Context())
	if err == nil || !strings.Contains(engines, "\n    "+err.Error()+"\n") {
		t.Errorf("engines.md does not show: %v", err)
	}
}
