package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Whoever finds a warning or an error in a log finds it in the page as well, and the page has none that nothing writes.
func TestEachWarningInALogHasItsRow(t *testing.T) {
	_, table, found := strings.Cut(read(t, "troubleshooting.md"), "\n## What drivers write to the log\n")
	if !found {
		t.Fatal("troubleshooting.md says nothing of the log")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	errors, _, _ := strings.Cut(table, "\nWarnings")
	rows := map[string]bool{} // whether something writes it
	for _, row := range regexp.MustCompile("(?m)^\\| (`.+?`) \\|").FindAllStringSubmatch(table, -1) {
		for _, text := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			rows[text[1]] = false
		}
	}
	said := warnings(t, "../coord")
	maps.Copy(said, warnings(t, "../observe/slogobs"))
	if len(said) < 60 {
		t.Errorf("only %d warnings were found in the code", len(said))
	}
	for message, w := range said {
		if !regexp.MustCompile(`^([a-z]+(/quorum)?)?: `).MatchString(message) {
			t.Errorf("%s: %q does not begin with the name of its driver", w.where, message)
		}
		known := false
		for row := range rows {
			begin, more := strings.CutSuffix(row, "…")
			_, end, of := strings.Cut(row, "…") // of several drivers, which put their names in front
			if message == row || more && strings.HasPrefix(message, begin) || of && message == end {
				rows[row], known = true, true
				if strings.Contains(errors, "`"+row+"`") != w.isError {
					t.Errorf("%s: %q is in the table of another level", w.where, message)
				}
			}
		}
		if !known {
			t.Errorf("%s: troubleshooting.md has no row for %q", w.where, message)
		}
	}
	for row, written := range rows {
		if !written {
			t.Errorf("nothing writes %q to a log", row)
		}
	}
}

// warning is where something is written to a log as a warning or an error.
type warning struct {
	where   string
	isError bool
}

// warnings returns what is written to a log as a warning or an error by what lies below dir, and where. The drivers call the levels of a
// logger that is named log or Log, or a method that is named warn; slogobs says the level, or watches until something has become long.
func warnings(t *testing.T, dir string) map[string]warning {
	t.Helper()
	said, files := map[string]warning{}, token.NewFileSet()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is {
				return true
			}
			logged, isError := logs(call)
			if !logged {
				return true
			}
			message := ""
			for _, arg := range call.Args {
				where := files.Position(arg.Pos()).String()
				if text := literal(t, arg); message == "" && strings.Contains(text, " ") {
					message, said[text] = text, warning{where, isError}
				} else if text == "error" {
					t.Errorf("%s: the key of an error is err", where)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// logs reports whether a call writes a warning or an error to a log, and which.
func logs(call *ast.CallExpr) (is, isError bool) {
	method, is := call.Fun.(*ast.SelectorExpr)
	if !is || method.Sel.Name == "warn" {
		return is, false
	}
	for _, arg := range call.Args {
		switch named(arg) {
		case "LevelWarn", "longWait", "longHold":
			return true, false
		case "LevelError":
			return true, true
		}
	}
	on := named(method.X)
	return (on == "log" || on == "Log") && (method.Sel.Name == "Warn" || method.Sel.Name == "Error"), method.Sel.Name == "Error"
}

// named returns the name of a variable, a field or a constant.
func named(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// literal returns the strings that an expression adds up.
func literal(t *testing.T, e ast.Expr) string {
	t.Helper()
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return literal(t, e.X) + literal(t, e.Y)
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return ""
		}
		text, err := strconv.Unquote(e.Value)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	return ""
}
