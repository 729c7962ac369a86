//go:build linux || darwin

package file

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Names in the directory are opened, made, changed and removed in dir.go alone, so that no second place can forget what is
// looked at there. The functions of the systems that dir.go and the swap call take a directory that is open.
func TestNoOtherFileGoesByPath(t *testing.T) {
	byPath := strings.Fields(`Open OpenFile OpenRoot OpenInRoot Openat Openat2 Create CreateTemp Remove RemoveAll Unlink Unlinkat Rmdir Rename
		Renameat Renameat2 RenameatxNp Chmod Fchmodat Chown Lchown Fchownat Chtimes Mkdir MkdirAll MkdirTemp Mkdirat Mkfifo Mkfifoat
		Mknod Mknodat Symlink Symlinkat Link Linkat Truncate ReadFile WriteFile ReadDir Access Creat`)
	allowed := map[string][]string{
		"exchange": {"Renameat2", "RenameatxNp"}, "renameNew": {"Renameat2", "RenameatxNp"}, "mkfifoAt": {"Mknodat", "Mkfifo"}, "bootID": {"ReadFile"},
	}
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) < 10 {
		t.Fatal(names, err)
	}
	found := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			ast.Inspect(d, func(n ast.Node) bool {
				call, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				pkg, ok := call.X.(*ast.Ident)
				if !ok || !slices.Contains([]string{"os", "unix", "syscall"}, pkg.Name) || !slices.Contains(byPath, call.Sel.Name) {
					return true
				}
				found++
				f, isFunc := d.(*ast.FuncDecl)
				if name != "dir.go" && !(isFunc && slices.Contains(allowed[f.Name.Name], call.Sel.Name)) {
					t.Errorf("%s calls %s.%s: let a dir do it", name, pkg.Name, call.Sel.Name)
				}
				return true
			})
		}
	}
	if found < 5 {
		t.Errorf("only %d calls are found: does it look at the right ones?", found)
	}
}
