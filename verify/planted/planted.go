// Package planted takes single safeguards away, to show that tests notice. A bug is a text as it stands in a file, and
// the same text without the safeguard; what is built from the second is built with `go test -overlay`, so the files
// themselves know nothing of it, and every package can have bugs.
//
//	go test ./verify/planted                                                  that every text is still there, once
//	make test-planted                                                         that every bug is noticed
//	go test ./verify/planted -v -run 'TestNoticed/deadline' -planted.hunt     by what, for those with this in their names
//
// Whoever changes a text that a bug is made of changes it here, too, and sees that the bug is still noticed. A new bug is
// an entry in the table of its package, and a row in docs/planted-bugs.md.
package planted

// Bug is a safeguard that is missing.
type Bug struct {
	Name  string
	Edits []Edit
	By    Tests
}

// Edit is one change of a file, given from the top of the repository. Was stands in it exactly once.
type Edit struct{ File, Was, Now string }

// Tests are those that must notice a bug. The fewer the better: each bug is a build and a run of them.
type Tests struct {
	Module  string // where its go.mod is, from the top of the repository
	Package string // from there
	Run     string // as for -run; only a test as deep as this counts, so that a server that does not start is no notice
	Args    []string
}

// All lists the bugs there are.
func All() []Bug {
	var all []Bug
	for _, table := range [][]Bug{engine, memory, zk, etcd} {
		all = append(all, table...)
	}
	return all
}

// hunt looks for the first seed with which something goes wrong.
var hunt = Tests{Module: ".", Package: "./verify/simulation", Run: "TestHunt", Args: []string{"-sim.hunt=100"}}

// one is a bug that takes one edit.
func one(name, file, was, now string, by Tests) Bug {
	return Bug{Name: name, Edits: []Edit{{file, was, now}}, By: by}
}
