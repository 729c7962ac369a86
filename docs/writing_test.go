package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"testing"
)

// Whoever reads these pages types what they name.
func TestWhatThePagesOnWritingNameIsThere(t *testing.T) {
	elsewhere := map[string]bool{"synctest": true, "time": true, "service": true} // Go's, and a variable of the code
	folders := map[string]string{}
	for _, folder := range []string{
		"coord", "coord/driver", "coord/driver/driverkit", "coord/drivertest", "coord/mem", "coord/register", "coord/register/storekit",
		"coord/register/storetest", "recipes/multi",
	} {
		folders[filepath.Base(folder)] = folder
	}
	there := map[string]map[string]bool{}
	for _, page := range []string{"recipe", "driver", "store"} {
		text := fenced.ReplaceAllString(read(t, "writing-a-"+page+".md"), "")
		found := 0
		for _, n := range regexp.MustCompile("`(\\w+)\\.([A-Z]\\w*)(?:\\.([A-Z]\\w*))?").FindAllStringSubmatch(text, -1) {
			if elsewhere[n[1]] {
				continue
			}
			folder, within := folders[n[1]], n[2]
			switch n[1] { // as the pages shorten them
			case "Link", "Service":
				folder, within = "coord/drivertest", n[1]+"."+n[2]
			case "Client", "Hold":
				folder, within = "coord", n[1]+"."+n[2]
			case "pkg":
				folder, within = "coord/register/storekit", "Package."+n[2]
			case "Swap":
				folder, within = "coord/register", n[1]+"."+n[2]
			default:
				if n[3] != "" {
					within += "." + n[3]
				}
			}
			if there[folder] == nil {
				there[folder] = exports(t, folder)
			}
			if found++; !there[folder][within] {
				t.Errorf("writing-a-%s.md: there is no %s", page, n[0])
			}
		}
		if found < 5 {
			t.Errorf("writing-a-%s.md names %d things", page, found)
		}
	}
}

// exports returns what a folder's package exports, fields and methods as Type.Name.
func exports(t *testing.T, folder string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, file := range sources(t, folder) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					name = receiver(d.Recv.List[0].Type) + "." + name
				}
				all[name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					addSpec(all, s)
				}
			}
		}
	}
	return all
}

func addSpec(all map[string]bool, s ast.Spec) {
	add := func(within string, names []*ast.Ident) {
		for _, n := range names {
			all[within+n.Name] = true
		}
	}
	switch s := s.(type) {
	case *ast.ValueSpec:
		add("", s.Names)
	case *ast.TypeSpec:
		all[s.Name.Name] = true
		fields := &ast.FieldList{}
		switch of := s.Type.(type) {
		case *ast.StructType:
			fields = of.Fields
		case *ast.InterfaceType:
			fields = of.Methods
		}
		for _, f := range fields.List {
			add(s.Name.Name+".", f.Names)
		}
	}
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
