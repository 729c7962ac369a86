package planted

import (
	"errors"
	"flag"
	"go/parser"
	"go/token"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../.."

var hunting = flag.Int("planted.hunt", 0, "build and run the tests with each bug, which takes minutes; with each ninth bug if it is 9")

// Nothing is compiled here, so that somebody who edits a text that a bug replaces hears of it at once.
func TestEveryBugCanBePlanted(t *testing.T) {
	seen := make(map[string]bool)
	for _, b := range All() {
		if seen[b.Name] {
			t.Errorf("two bugs are called %q", b.Name)
		}
		seen[b.Name] = true
		files, err := b.Plant(root)
		if err != nil {
			t.Errorf("%s: %v", b.Name, err)
		}
		for name, text := range files {
			if _, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution); err != nil {
				t.Errorf("%s: with the bug it is no Go: %v", b.Name, err)
			}
		}
	}
}

func TestABugThatIsNotThereOnceIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("one, two, two"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, edits := range map[string][]Edit{
		"missing":         {{"a.go", "three", "four"}},
		"twice":           {{"a.go", "two", "four"}},
		"nothing changes": {{"a.go", "one", "one"}},
		"no such file":    {{"b.go", "one", "two"}},
		"taken away":      {{"a.go", "one", ""}, {"a.go", "one", "two"}},
	} {
		if files, err := (Bug{Name: name, Edits: edits}).Plant(dir); err == nil {
			t.Errorf("%s: planted as %q", name, files)
		}
	}
}

// Only a real notice may count, or a bug would pass for noticed when a server does not start.
func TestOnlyATestThatFailsIsANotice(t *testing.T) {
	by := Tests{Run: "T/01/lost"}
	for name, out := range map[string]string{
		"a build that fails": `{"Action":"build-output","Output":"x.go:1: undefined\n"}{"Action":"fail","FailedBuild":"x"}`,
		"a panic":            `{"Action":"output","Test":"T/01/lost","Output":"panic: oh\n"}{"Action":"fail","Test":"T/01/lost"}`,
		"no test":            `{"Action":"output","Output":"testing: warning: no tests to run\n"}{"Action":"pass"}`,
		"no server":          `{"Action":"output","Test":"T","Output":"    a.go:1: no server\n"}{"Action":"fail","Test":"T"}`,
		"a skip":             `{"Action":"skip","Test":"T/01/lost"}{"Action":"pass","Test":"T"}`,
		"no JSON":            `go: no such module`,
	} {
		if got, err := by.read([]byte(out)); err == nil || errors.Is(err, ErrUnnoticed) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got, err := by.read([]byte(`{"Action":"pass","Test":"T/01/lost"}`)); !errors.Is(err, ErrUnnoticed) {
		t.Errorf("all pass: %+v, %v", got, err)
	}
	got, err := by.read([]byte(`{"Action":"output","Test":"T/01/lost","Output":"level=INFO msg=x\n"}
		{"Action":"output","Test":"T/01/lost","Output":"    a.go:1: two hold\n"}{"Action":"fail","Test":"T/01/lost"}{"Action":"fail","Test":"T"}`))
	if want := (Notice{"T/01/lost", "two hold"}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestNoticed(t *testing.T) {
	if *hunting <= 0 {
		t.Skip("-planted.hunt asks for it")
	}
	var bugs []Bug
	for _, b := range All() { // by its name, so that a new bug does not change which of the others are hunted
		if h := fnv.New32a(); *hunting > 1 {
			h.Write([]byte(b.Name))
			if h.Sum32()%uint32(*hunting) > 0 {
				continue
			}
		}
		bugs = append(bugs, b)
	}
	packages := make(map[string]Suspects)
	for _, b := range bugs {
		if p := strings.Join(append([]string{b.By.Module, b.By.Package}, b.By.Args...), " "); !slices.ContainsFunc(packages[p], func(by Tests) bool { return by.Run == b.By.Run }) {
			packages[p] = append(packages[p], b.By)
		}
	}
	for p, all := range packages {
		t.Run("without a bug: "+p, func(t *testing.T) {
			t.Parallel()
			if err := all.Acquit(root); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, b := range bugs {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			n, err := b.Hunt(root)
			for range 2 { // on real servers some bugs may pass by good luck
				if errors.Is(err, ErrUnnoticed) {
					n, err = b.Hunt(root)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%-70s %4.1f s  %s: %s", b.Name, time.Since(start).Seconds(), n.Test, n.Says)
		})
	}
}
