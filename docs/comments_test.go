package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Whoever reads a package's page finds a word on each name that it exports. A group of constants or variables may have one comment for
// all of them, before it, if no name in it has one of its own: once one has, the others look forgotten. A method may go
// without: what those of a driver or a store do is said where the interface is.
func TestEveryExportedNameHasAComment(t *testing.T) {
	folders := publicFolders(t)
	found := 0
	for _, folder := range folders {
		files := token.NewFileSet()
		for _, file := range sources(t, folder) {
			parsed, err := parser.ParseFile(files, file, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				names, bare := uncommented(d)
				found += names
				for _, n := range bare {
					t.Errorf("%s: %s has no comment", files.Position(n.Pos()), n.Name)
				}
			}
		}
	}
	if len(folders) < 30 || found < 500 {
		t.Errorf("%d packages export %d names: have they moved?", len(folders), found)
	}
}

// publicFolders returns the folders of the packages of all modules that others may import.
func publicFolders(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || !e.IsDir():
			return err
		case path != ".." && strings.HasPrefix(e.Name(), "."), slices.Contains([]string{"internal", "testdata", "cmd", "examples", "tools", "verify", "scripts", "bin", "docs"}, e.Name()):
			return fs.SkipDir
		}
		folder, err := filepath.Rel("..", path)
		if err == nil && len(sources(t, folder)) > 0 {
			all = append(all, folder)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// uncommented returns how many names a declaration exports, and which of them have no comment.
func uncommented(d ast.Decl) (names int, bare []*ast.Ident) {
	note := func(n *ast.Ident, has bool) {
		if !n.IsExported() {
			return
		}
		if names++; !has {
			bare = append(bare, n)
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			note(d.Name, d.Doc != nil)
		}
	case *ast.GenDecl:
		group := d.Doc != nil && !slices.ContainsFunc(d.Specs, hasOwnComment)
		for _, s := range d.Specs {
			own := group || hasOwnComment(s) || !d.Lparen.IsValid() && d.Doc != nil
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					note(n, own)
				}
			case *ast.TypeSpec:
				note(s.Name, own)
			}
		}
	}
	return names, bare
}

func hasOwnComment(s ast.Spec) bool {
	switch s := s.(type) {
	case *ast.ValueSpec:
		return s.Doc != nil || s.Comment != nil
	case *ast.TypeSpec:
		return s.Doc != nil || s.Comment != nil
	}
	return false
}

// The check finds what it is for.
func TestANameWithoutACommentIsFound(t *testing.T) {
	for source, want := range map[string]string{
		"func F() {}":     "F",
		"type T struct{}": "T",
		"const (\n\tA = 1\n\tB = 2 // the second\n)":            "A",
		"// All of them.\nconst (\n\tA = 1\n\tB = 2 // two\n)":  "A",
		"// All of them.\nconst (\n\tA = 1\n\tB = 2\n)":         "",
		"type t struct{}\nfunc (t) M() {}":                      "",
		"// T is a type.\ntype T int\nfunc (T) String() string": "",
		"var a, B = 1, 2": "B",
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+source, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		var bare []string
		for _, d := range parsed.Decls {
			_, names := uncommented(d)
			for _, n := range names {
				bare = append(bare, n.Name)
			}
		}
		if got := strings.Join(bare, " "); got != want {
			t.Errorf("%q: %q have no comment, want %q", source, got, want)
		}
	}
}
