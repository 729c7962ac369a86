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

// wallClock are the files of drivers that may turn a time into a number, and why. The number has the wall clock alone, which
// jumps when it is set.
var wallClock = map[string]string{
	"coord/register/draft.go":        "since when a node is in line, for others to read",
	"coord/register/session.go":      "the owner's clock in its session, for others to read",
	"coord/file/notes.go":            "a pipe's age: the file system stamps it",
	"coord/zk/session.go":            "not on the monotonic clock yet",
	"coord/zk/internal/wire/conn.go": "not on the monotonic clock yet",
	"coord/redis/group.go":           "not on the monotonic clock yet",
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
			name, ok := n.(*ast.SelectorExpr)
			if !ok || !slices.Contains([]string{"Unix", "UnixMilli", "UnixMicro", "UnixNano"}, name.Sel.Name) {
				return true
			}
			if pkg, ok := name.X.(*ast.Ident); ok && pkg.Name == "time" {
				return true // a number becomes a time
			}
			seen[file] = true
			if wallClock[file] == "" {
				t.Errorf("%s uses the wall clock (%s): keep a time.Time, or add the file to wallClock with the reason",
					files.Position(name.Sel.Pos()), name.Sel.Name)
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
