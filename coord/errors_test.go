package coord_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/verify/bubble"
)

func TestAnErrorSaysWhoItComesFromOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		holder, c := s.Client(), s.Client()
		h, err := on(holder)(t.Context())
		require.NoError(t, err)
		second, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		_, busy := on(c)(second)
		_, try := c.TryAcquire(t.Context(), "line", "lock", nil, exclusive)
		_, name := c.Line(t.Context(), "a//b")
		require.NoError(t, c.Break(t.Context(), h.Node()))
		time.Sleep(time.Second)
		amend := h.Amend(t.Context(), "lock", nil)
		assert.Regexp(t, `^turnwise: try "line" \(1 ahead, of kind lock, .+/\d+ since 2000-01-01T00:00:00Z\): line is busy: this process itself has it; within a hold, lock with the hold's context$`, try)
		for err, want := range map[error]string{
			busy:                                `turnwise: acquire "line" (1 ahead, of kind lock): context deadline exceeded: line is busy`,
			name:                                `turnwise: line "a//b": invalid name "a//b": it has an empty segment: no slash at either end, and no two in a row`,
			coord.CheckName("."):                `turnwise: invalid name ".": a segment is .`,
			c.Break(t.Context(), h.Node()):      `turnwise: break "line": node removed`,
			amend:                               `turnwise: amend "line": hold lost: the node was removed`,
			h.Release():                         `turnwise: release "line": hold lost: the node was removed`,
			context.Cause(h.Context()):          `hold lost: the node was removed`,
			h.Err():                             `hold lost: the node was removed`,
			&coord.Error{Op: "do", Err: io.EOF}: `turnwise: do: EOF`,
			&coord.Error{Op: "line", Line: strings.Repeat("x", 70), Err: io.EOF}: `turnwise: line "` + strings.Repeat("x", 61) + `...": EOF`,
		} {
			assert.EqualError(t, err, want)
		}
	})
}

// The comment on Error.Op is all that tells a user what it may be.
func TestErrorsCallTheirOpAsTheCommentSays(t *testing.T) {
	var documented, used []string
	told := make(map[string]bool) // the functions that are told the op
	inspect := func(see func(ast.Node)) {
		for _, pattern := range []string{"*.go", "../recipes/*/*.go", "../fence/*.go", "../fence/*/*.go"} {
			files, err := filepath.Glob(pattern)
			require.NoError(t, err)
			for _, name := range files {
				if !strings.HasSuffix(name, "_test.go") {
					file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
					require.NoError(t, err)
					ast.Inspect(file, func(n ast.Node) bool { see(n); return true })
				}
			}
		}
	}
	inspect(func(n ast.Node) {
		switch n := n.(type) {
		case *ast.Field:
			if len(n.Names) == 1 && n.Names[0].Name == "Op" {
				documented = append(documented, regexp.MustCompile(`"[a-z]+"`).FindAllString(n.Doc.Text(), -1)...)
			}
		case *ast.FuncDecl:
			for _, p := range n.Type.Params.List {
				if len(p.Names) > 0 && p.Names[0].Name == "op" {
					told[n.Name.Name] = true
				}
			}
		}
	})
	inspect(func(n ast.Node) {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && strings.EqualFold(key.Name, "op") {
				used = append(used, literals(n.Value)...)
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && told[f.Sel.Name] {
				used = append(used, literals(n.Args...)...)
			}
		}
	})
	slices.Sort(used)
	slices.Sort(documented)
	assert.Equal(t, slices.Compact(used), documented)
}

func literals(exprs ...ast.Expr) []string {
	var texts []string
	for _, e := range exprs {
		if s, ok := e.(*ast.BasicLit); ok && s.Kind == token.STRING {
			texts = append(texts, s.Value)
		}
	}
	return texts
}

func TestWhatTheServiceSaysStaysInTheError(t *testing.T) {
	err := error(&coord.Error{Op: "acquire", Line: "line", Err: errors.Join(coord.ErrUnavailable, io.ErrUnexpectedEOF)})
	assert.ErrorIs(t, err, coord.ErrUnavailable)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// What a service, or somebody in line, has written into an error must not affect the terminal that shows it.
func TestTheTextOfAnErrorIsSafeToShow(t *testing.T) {
	words := errors.New("the server says \x1b[2J\u202eOK\ngranted")
	err := &coord.Error{
		Op: "acquire", Line: "a\u3164\u202e", Ahead: 1, Err: fmt.Errorf("%w: %w", coord.ErrUnavailable, words),
		Blocker: coord.Node{Kind: "lo\nck", Owner: coord.Owner{Host: "h\x1b]0;", Label: "l\u2066\ufe0f"}},
	}
	for _, r := range err.Error() {
		if !strconv.IsPrint(r) || r == '\u3164' || r == '\ufe0f' {
			t.Errorf("%q is shown as it is: %+q", r, err.Error())
		}
	}
	if want := `the server says \x1b[2J\u202eOK\ngranted`; !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%s does not end with %s", err, want)
	}
	if !errors.Is(err, words) {
		t.Error("it wraps nothing")
	}
}
