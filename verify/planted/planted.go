// Package planted takes safeguards away, one at a time, to show that tests notice. A bug is a text as it stands in a
// file, and the same text without the safeguard. The second is built in with `go test -overlay`, so the files stay as they
// are, and every package can have bugs.
//
//	go test ./verify/planted                                                  that every text is still there, once
//	make test-planted                                                         that every bug is noticed
//	go test ./verify/planted -v -run 'TestNoticed/deadline' -planted.hunt=1   what notices the bugs with this in their names
//
// If you change a text that a bug replaces, change it here too, and check that the bug is still noticed. A new bug is an
// entry in the table of its package, and a row in docs/planted-bugs.md.
package planted

// Bug is a missing safeguard.
type Bug struct {
	Name  string
	Edits []Edit
	By    Tests
}

// Edit is one change to a file, named from the top of the repository. Was stands in it exactly once.
type Edit struct{ File, Was, Now string }

// Tests are those that must notice a bug. The fewer the better: for each bug they are built and run.
type Tests struct {
	Module  string // where its go.mod is, from the top of the repository
	Package string // from the folder of that go.mod
	Run     string // as for -run; only a test as deep as this counts, so that a server's failure to start is no notice
	Args    []string
}

// All returns all bugs.
func All() []Bug {
	var all []Bug
	for _, table := range [][]Bug{engine, recipes, zk, etcd, register, stores, forgets, kube, nats, peers, tool} {
		all = append(all, table...)
	}
	return all
}

// hunt looks for the first seed that makes something go wrong with one of the drivers: register, zookeeper or etcd.
func hunt(driver string, more ...string) Tests {
	return Tests{Module: ".", Package: "./verify/simulation", Run: "TestHunt", Args: append([]string{"-sim.hunt=300", "-sim.profile=" + driver}, more...)}
}

// scripts runs the scripts that are known to need some safeguard.
var scripts = Tests{Module: ".", Package: "./verify/simulation", Run: "TestWhatOnceFailed"}

// scriptsZK tries a single fault at every step of every play, on an ensemble that speaks ZooKeeper's protocol, with the driver as
// it is shipped. scriptsEtcd is the same on an etcd cluster.
func scriptsZK(fault string) Tests { return everyStep("zookeeper", fault) }

func scriptsEtcd(fault string) Tests { return everyStep("etcd", fault) }

func everyStep(profile, fault string) Tests {
	return Tests{Module: ".", Package: "./verify/simulation", Run: "TestEveryFaultAtEveryStep", Args: []string{"-sim.profile=" + profile, "-sim.kind=" + fault, "-sim.most=0"}}
}

// one is a bug that takes one edit.
func one(name, file, was, now string, by Tests) Bug {
	return Bug{Name: name, Edits: []Edit{{file, was, now}}, By: by}
}
