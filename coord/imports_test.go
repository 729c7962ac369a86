package coord_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A program that imports a recipe gets the standard library and nothing else.
func TestTheCoreNeedsTheStandardLibraryAlone(t *testing.T) {
	needsNoOther(t, nil, "coord", "coord/driver", "coord/driver/deadlines", "coord/register", "coord/mem", "coord/trace", "recipes/...", "fence/...",
		"sharedfile")
}

// Some system calls have no name in the standard library.
func TestFilesNeedNamesForSystemCallsAlone(t *testing.T) {
	needsNoOther(t, []string{"golang.org/x/sys/unix"}, "coord/file")
}

// coord/kube is a driver, and needs nothing else either.
func TestKubernetesNeedsTheStandardLibraryAlone(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "github.com/turnwise/turnwise/coord/kube").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, pkg := range strings.Fields(string(out)) {
		if !strings.HasPrefix(pkg, "github.com/turnwise/turnwise/") {
			t.Errorf("it needs %s", pkg)
		}
	}
}

// needsNoOther checks that packages of the root import only the standard library, the rest of the root except the
// drivers of services, and what is allowed.
func needsNoOther(t *testing.T, allowed []string, packages ...string) {
	t.Helper()
	args := []string{"list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}"}
	for _, p := range packages {
		args = append(args, "github.com/turnwise/turnwise/"+p)
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, pkg := range strings.Fields(string(out)) {
		if !strings.HasPrefix(pkg, "github.com/turnwise/turnwise/") && !slices.Contains(allowed, pkg) {
			t.Errorf("it needs %s", pkg)
		}
		for _, service := range []string{"/coord/zk", "/coord/etcd", "/coord/memcached", "/coord/kube"} {
			if strings.HasSuffix(pkg, service) {
				t.Errorf("it knows the driver %s", pkg)
			}
		}
	}
}

// A library module is released together with the root's, but its users may combine it with another version of that.
// What is internal changes from version to version, so only tests may use it. All files are read, whatever system they
// are for.
func TestLibraryModulesKeepToWhatIsPublic(t *testing.T) {
	for _, module := range libraryModules(t) {
		t.Run(module, func(t *testing.T) {
			for _, file := range filesWithin(t, module, func(name string) bool {
				return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
			}) {
				parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", file), nil, parser.ImportsOnly)
				if err != nil {
					t.Fatal(err)
				}
				for _, imported := range parsed.Imports {
					name, ours := strings.CutPrefix(strings.Trim(imported.Path.Value, `"`), "github.com/turnwise/turnwise/")
					if ours && strings.Contains("/"+name+"/", "/internal/") && !strings.HasPrefix(name, module+"/") {
						t.Errorf("%s imports %s", file, name)
					}
				}
			}
		})
	}
}

// libraryModules are the modules within the root's that others import.
func libraryModules(t *testing.T) (modules []string) {
	for _, file := range filesWithin(t, ".", func(name string) bool { return name == "go.mod" }) {
		dir := path.Dir(file)
		top, _, _ := strings.Cut(dir, "/")
		if dir != "." && !slices.Contains([]string{"examples", "tools", "verify"}, top) {
			modules = append(modules, dir)
		}
	}
	return modules
}

// filesWithin are the files of a folder of the repository whose names are wanted.
func filesWithin(t *testing.T, dir string, wanted func(name string) bool) (files []string) {
	err := fs.WalkDir(os.DirFS(".."), dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && wanted(d.Name()) {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
