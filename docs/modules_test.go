package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// README says what a program gets that imports a package, and with each dependency that is added somebody has to say so there.
func TestWhatAnImportBrings(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| ((?:`[a-z/]+`(?:, )?)+) \\| (\\d+) \\| (\\d+) \\|$")
	imports := 0
	for _, found := range row.FindAllStringSubmatch(read(t, "../README.md"), -1) {
		for _, name := range strings.Split(found[1], ", ") {
			imports++
			dir := filepath.Join("..", strings.Trim(name, "`"))
			if got := strconv.Itoa(len(modulesOfOthers(t, dir))); got != found[2] {
				t.Errorf("%s brings %s modules: %v", name, got, modulesOfOthers(t, dir))
			}
			for !exists(filepath.Join(dir, "go.mod")) {
				dir = filepath.Dir(dir)
			}
			if got := strconv.Itoa(strings.Count(read(t, filepath.Join(dir, "go.sum")), "\n")); got != found[3] {
				t.Errorf("go.sum of %s has %s lines", name, got)
			}
		}
	}
	if imports < 10 {
		t.Errorf("README has %d imports: has the table moved?", imports)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// modulesOfOthers returns the modules that a program has to have which imports the package.
func modulesOfOthers(t *testing.T, dir string) map[string]bool {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	list.Dir = dir
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	all := make(map[string]bool)
	for _, path := range strings.Fields(string(out)) {
		if !strings.HasPrefix(path, "github.com/turnwise/turnwise") {
			all[path] = true
		}
	}
	return all
}
