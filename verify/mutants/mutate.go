package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// A mutant is a file with one small thing changed.
type mutant struct {
	file     string // from the top of the repository
	line     int
	function string // such as Hold.Release
	was, now string // what is changed
	text     []byte // of the whole file, with the change
}

// String names a mutant without its line number, which changes too often.
func (m mutant) String() string {
	return fmt.Sprintf("%s %s: %s => %s", m.file, m.function, m.was, m.now)
}

// folder is where a mutant is, from its module's top; "" for the zero mutant.
func (m mutant) folder(module string) string {
	if m.file == "" {
		return ""
	}
	rel, _ := filepath.Rel(module, filepath.Dir(m.file))
	return filepath.ToSlash(rel)
}

// mutants returns all mutants of the files in a folder that are built here.
func mutants(root, folder string) ([]mutant, error) {
	pkg, err := build.ImportDir(filepath.Join(root, folder), 0)
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, name := range pkg.GoFiles {
		file := filepath.Join(folder, name)
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		found, err := mutantsOf(filepath.ToSlash(file), text)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func mutantsOf(file string, text []byte) ([]mutant, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	s := &source{file: file, text: text, files: files}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			s.function = nameOf(f)
			ast.Inspect(f.Body, s.visit)
		}
	}
	return s.all, nil
}

func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
			continue
		case *ast.IndexExpr:
			of = t.X
			continue
		case *ast.Ident:
			return t.Name + "." + f.Name.Name
		}
		return f.Name.Name
	}
}

// source is a file in which mutants are looked for.
type source struct {
	file     string
	text     []byte
	files    *token.FileSet
	function string
	all      []mutant
}

func (s *source) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		if left, ok := errorChecked(n.Cond); ok {
			s.replace(n.Cond, left+" != nil && false")
		}
		s.replace(n.Cond, "!("+s.of(n.Cond)+")")
	case *ast.CaseClause:
		for _, c := range n.List {
			if b, ok := c.(*ast.BinaryExpr); ok && isCondition(b) {
				s.replace(c, "!("+s.of(c)+")")
			}
		}
	case *ast.BinaryExpr:
		if other := neighbours[n.Op]; other != token.ILLEGAL {
			s.replace(n, s.of(n.X)+" "+other.String()+" "+s.of(n.Y))
		}
	case *ast.ReturnStmt:
		if len(n.Results) > 0 {
			last := n.Results[len(n.Results)-1]
			if id, ok := last.(*ast.Ident); ok && isError(id.Name) {
				s.replace(last, "nil")
			}
		}
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt:
		s.replace(n, "")
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			s.replace(n, "")
		}
	}
	return true
}

// neighbours are comparisons off by one, and the other way to put two conditions together.
var neighbours = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND,
}

func isCondition(b *ast.BinaryExpr) bool {
	return b.Op == token.EQL || b.Op == token.NEQ || neighbours[b.Op] != token.ILLEGAL
}

// errorChecked recognizes err != nil.
func errorChecked(cond ast.Expr) (name string, ok bool) {
	b, ok := cond.(*ast.BinaryExpr)
	if !ok || b.Op != token.NEQ {
		return "", false
	}
	left, isIdent := b.X.(*ast.Ident)
	right, isNil := b.Y.(*ast.Ident)
	if !isIdent || !isNil || right.Name != "nil" || !isError(left.Name) {
		return "", false
	}
	return left.Name, true
}

func isError(name string) bool {
	return name == "err" || strings.HasPrefix(name, "err") || strings.HasSuffix(name, "Err")
}

func (s *source) of(n ast.Node) string {
	return string(s.text[s.files.Position(n.Pos()).Offset:s.files.Position(n.End()).Offset])
}

func (s *source) replace(n ast.Node, now string) {
	from, to := s.files.Position(n.Pos()), s.files.Position(n.End())
	was := string(s.text[from.Offset:to.Offset])
	s.all = append(s.all, mutant{
		file: s.file, line: from.Line, function: s.function, was: short(was), now: short(now),
		text: []byte(string(s.text[:from.Offset]) + now + string(s.text[to.Offset:])),
	})
}

// short puts a piece of code on one line.
func short(code string) string {
	code = strings.Join(strings.Fields(code), " ")
	if code == "" {
		return "(nothing)"
	}
	if len(code) > 100 {
		code = code[:97] + "..."
	}
	return code
}
