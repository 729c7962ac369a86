// Package docs is what is written about turnwise. Here is only what keeps it true.
package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestEveryPlantedBugIsListed(t *testing.T) {
	list := read(t, "planted-bugs.md")
	for file, pattern := range map[string]string{
		"../verify/model/model_test.go":           `\{"(.+)", families\(.*\}, ".+"\},`,
		"../coord/drivertest/modeldriver_test.go": `flaw = "(.+)"`,
	} {
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, file), -1)
		if len(found) < 5 {
			t.Errorf("%s has %d planted bugs: have they moved?", file, len(found))
		}
		for _, f := range found {
			if !strings.Contains(list, "\n| "+f[1]+" |") {
				t.Errorf("planted-bugs.md does not list %q of %s", f[1], file)
			}
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
