package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Whoever looks for something in one of these goes by the file map.
func TestTheFileMapIsWhole(t *testing.T) {
	text := read(t, "architecture.md")
	folders := append(stores(t), "coord", "coord/zk", "coord/etcd", "coord/register", "coord/redis/internal/server")
	for _, folder := range folders {
		for _, file := range sources(t, folder) {
			name := filepath.Base(file)
			if ofOneSystem.MatchString(name) || name == "doc.go" {
				continue // as the map says
			}
			if !strings.Contains(text, "`"+name+"`") && !strings.Contains(text, "/"+name+"`") {
				t.Errorf("architecture.md does not say what is in %s/%s", folder, name)
			}
		}
	}
}

var ofOneSystem = regexp.MustCompile(`_(linux|darwin|unix|other)\.go$|^unsupported\.go$`)

// Whoever has found a method in one store finds it in all.
func TestAMethodIsInTheSameFileInEveryStore(t *testing.T) {
	at := map[string]string{
		"Connect": "connect.go", "New": "connect.go", "Open": "open.go", "Option": "options.go", "Store": "store.go",
		"Strength": "store.go", "Close": "store.go", "Read": "read.go", "Swap": "swap.go", "List": "list.go",
		"Listen": "listen.go", "Memory": "memory.go",
	}
	for _, folder := range stores(t) {
		found := map[string]bool{}
		for _, file := range sources(t, folder) {
			if ofOneSystem.MatchString(filepath.Base(file)) {
				continue
			}
			for _, name := range declared(t, file) {
				if want := at[name]; want != "" && filepath.Base(file) != want {
					t.Errorf("%s: %s is not in %s", file, name, want)
				}
				found[name] = true
			}
		}
		for name := range at {
			optional := name == "New" || name == "Option" && folder == "coord/redis/quorum" // it has the options of one Redis
			if !found[name] && !optional {
				t.Errorf("%s has no %s", folder, name)
			}
		}
	}
}

func TestEveryPackageThatUsersCallHasAnExample(t *testing.T) {
	folders := append(stores(t), "coord", "coord/zk", "coord/etcd", "coord/mem", "coord/register", "coord/trace", "sharedfile", "backend")
	for _, within := range []string{"recipes", "fence", "observe"} {
		found, err := filepath.Glob("../" + within + "/*/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			folders = append(folders, folderOf(file))
		}
	}
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		tests, err := filepath.Glob("../" + folder + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(tests, func(file string) bool { return strings.Contains(read(t, file), "\nfunc Example") }) {
			t.Errorf("%s has no Example", folder)
		}
	}
}

// stores are the folders with a store of coord/register that users open.
func stores(t *testing.T) (folders []string) {
	t.Helper()
	for _, pattern := range []string{"../coord/*/store.go", "../coord/*/*/store.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			if folder := folderOf(file); folder != "coord/register" {
				folders = append(folders, folder)
			}
		}
	}
	if len(folders) < 7 {
		t.Fatalf("stores are %v: have they moved?", folders)
	}
	return folders
}

func folderOf(file string) string {
	return strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../")
}

func sources(t *testing.T, folder string) []string {
	t.Helper()
	all, err := filepath.Glob("../" + folder + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(file string) bool { return strings.HasSuffix(file, "_test.go") })
}

// declared returns the functions, the types and the methods of Store that a file declares.
func declared(t *testing.T, file string) (names []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || isStore(d.Recv.List[0].Type) {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok {
					names = append(names, s.Name.Name)
				}
			}
		}
	}
	return names
}

func isStore(receiver ast.Expr) bool {
	star, ok := receiver.(*ast.StarExpr)
	if !ok {
		return false
	}
	name, ok := star.X.(*ast.Ident)
	return ok && name.Name == "Store"
}
