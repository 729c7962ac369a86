package coord_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// wallClock are the files of drivers that may go by the wall clock, which jumps when it is set, and why. A time.Time also has a
// monotonic reading, and loses it when somebody makes a number of it.
var wallClock = map[string]string{
	"coord/register/draft.go":     "since when a node is in line, for others to read",
	"coord/register/suspect.go":   "a try compares its clock with the owner's",
	"coord/register/heartbeat.go": "the owner's clock in its session, for others to read, and to tell whether to ask whether one that rests lives",
	"coord/file/notes.go":         "a pipe's age: the file system stamps it",
}

// A deadline from the wall clock is wrong as soon as an operator, NTP or a machine that wakes up sets that clock.
func TestDriversTellTimeByTheMonotonicClock(t *testing.T) {
	seen := make(map[string]bool)
	for _, file := range filesWithin(t, "coord", func(name string) bool {
		return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
	}) {
		if strings.HasPrefix(file, "coord/trace/") || strings.HasPrefix(file, "coord/drivertest/") {
			continue // these measure and report
		}
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, filepath.Join("..", file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !losesTheMonotonicReading(call) {
				return true
			}
			seen[file] = true
			if wallClock[file] == "" {
				t.Errorf("%s: the wall clock: keep a time.Time, or add the file to wallClock with the reason", files.Position(n.Pos()))
			}
			return true
		})
	}
	for file := range wallClock {
		if !seen[file] {
			t.Errorf("%s no longer uses the wall clock: take it off wallClock", file)
		}
	}
}

// losesTheMonotonicReading reports whether a call is of the kind of t.UnixNano() or t.Round(0).
func losesTheMonotonicReading(call *ast.CallExpr) bool {
	of, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch of.Sel.Name {
	case "Unix", "UnixMilli", "UnixMicro", "UnixNano":
		return len(call.Args) == 0 // time.Unix(…) makes a time of a number
	case "Round":
		zero, ok := call.Args[0].(*ast.BasicLit)
		return ok && zero.Value == "0"
	}
	return false
}
