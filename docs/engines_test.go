package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func TestTheTableOfEnginesIsThatOfTheStrengths(t *testing.T) {
	service := mem.New()
	defer service.Close()
	strength := service.Client().Driver().Strength()
	if row := MissingInEngines("coord/mem", strength); row != "" {
		t.Errorf("engines.md lacks\n%s", row)
	}
	head := "|"
	for about := range strength.Aspects() {
		head += " | " + about
	}
	if !strings.Contains(engines, "\n"+head+" |\n") {
		t.Errorf("engines.md lacks\n%s |", head)
	}
}

// Each driver checks its own row, since some are in modules that this one does not know.
func TestEveryDriverHasARowAndEveryRowADriver(t *testing.T) {
	drivers := map[string]bool{"coord/mem": true} // whose row is checked above
	var sources []string
	for _, pattern := range []string{"../coord/*/*.go", "../coord/*/*/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, found...)
	}
	method := regexp.MustCompile(`(?m)^func \(.+\) Strength\(\) driver\.Strength`)
	for _, file := range sources {
		if !strings.HasSuffix(file, "_test.go") && method.MatchString(read(t, file)) {
			drivers[strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../")] = true
		}
	}
	delete(drivers, "coord/register") // it has the strengths of its stores
	delete(drivers, "coord/register/storetest")
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
		tests, err := filepath.Glob("../" + d + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		if d != "coord/mem" && !slices.ContainsFunc(tests, func(file string) bool {
			return strings.Contains(read(t, file), `docs.MissingInEngines("`+d+`"`)
		}) {
			t.Errorf("no test of %s calls MissingInEngines", d)
		}
	}
}

func TestTheRefusalInTheTextIsTheOneThatIsReturned(t *testing.T) {
	service := mem.New()
	defer service.Close()
	c := service.Client(coord.Require(coord.Strength{Restart: coord.Remembers, Death: coord.ByTTL}))
	_, err := mutex.New(c, "orders").Lock(t.Context())
	if err == nil || !strings.Contains(engines, "\n    "+err.Error()+"\n") {
		t.Errorf("engines.md does not show: %v", err)
	}
}
