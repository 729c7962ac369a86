package coord_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What no function of the product reaches: whoever reads one can keep it in mind.
const (
	tooLong     = 71 // lines
	tooBranched = 20 // decisions, and one
)

func TestFunctionsCanBeReadAtOnce(t *testing.T) {
	for _, file := range filesWithin(t, ".", func(name string) bool {
		return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
	}) {
		if folders := strings.Split(file, "/"); folders[0] == "verify" || folders[0] == "examples" || slices.Contains(folders, "testdata") {
			continue
		}
		for _, f := range functionsOf(t, filepath.Join("..", file), nil) {
			if f.lines >= tooLong {
				t.Errorf("%s: %s has %d lines", file, f.name, f.lines)
			}
			if f.branches >= tooBranched {
				t.Errorf("%s: %s has a cyclomatic complexity of %d", file, f.name, f.branches)
			}
		}
	}
}

func TestFunctionsAreMeasuredAsPeopleCount(t *testing.T) {
	found := functionsOf(t, "measured.go", `package measured

func plain() {}

func (m *machine) branched(all []int, news chan int) bool {
	for range all {
		if len(all) > 1 && cap(all) > 1 || m.broken {
			return true
		}
	}
	for i := 0; i < 2; i++ {
		switch i {
		case 0, 1:
		default:
		}
	}
	return func() bool {
		select {
		case <-news:
		default:
		}
		return false
	}()
}
`)
	want := []function{{"plain", 1, 1}, {"branched", 20, 8}}
	if !slices.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
}

// function is how large a function is, with those inside it.
type function struct {
	name            string
	lines, branches int
}

func functionsOf(t *testing.T, file string, source any) (all []function) {
	t.Helper()
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			lines := files.Position(f.End()).Line - files.Position(f.Pos()).Line + 1
			all = append(all, function{f.Name.Name, lines, branches(f)})
		}
	}
	return all
}

// branches returns the cyclomatic complexity: one, and one more for each place that decides where to go on.
func branches(f *ast.FuncDecl) int {
	n := 1
	ast.Inspect(f, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}
