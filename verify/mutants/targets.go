package main

import "time"

// A target is code to be broken, and the tests that should notice.
type target struct {
	name    string
	module  string   // where its go.mod is, from the top of the repository
	folders []string // from there
	suites  []suite  // the quickest first
	wanted  int      // percent to be noticed

	patience time.Duration // for one suite; a mutant that makes it take longer is noticed
}

// A suite is the tests of one package.
type suite struct {
	folder string
	args   []string
}

// simulation is a short run of the simulation.
var simulation = suite{"verify/simulation", []string{"-test.run=TestHunt|TestWhatOnceFailed", "-sim.hunt=6"}}

var recipes = []string{"recipes/election", "recipes/mutex", "recipes/rwlock", "recipes/semaphore"}

var targets = []target{
	{"coord", ".", []string{"coord"}, append(of(append([]string{"coord", "coord/mem"}, recipes...)...), simulation), 85, 2 * time.Minute},
	{"rules", ".", []string{"coord/driver/rules"}, append(of("coord/driver/rules", "recipes/rwlock", "recipes/semaphore"), simulation), 85, 2 * time.Minute},
	{"recipes", ".", recipes, append(of(recipes...), simulation), 85, 2 * time.Minute},
	{"zk", ".", []string{"coord/zk"}, of("coord/zk"), 75, 10 * time.Minute},
	{"fence", ".", []string{"fence", "fence/httpfence"}, of("fence", "fence/httpfence"), 85, 2 * time.Minute},
	{"sharedfile", ".", []string{"sharedfile"}, of("sharedfile"), 75, 2 * time.Minute},
	{"etcd", "coord/etcd", []string{"."}, of("."), 75, 10 * time.Minute},
}

// usual are the targets that run unless others are named: they need no server.
var usual = []string{"coord", "rules", "recipes"}

func of(folders ...string) (all []suite) {
	for _, f := range folders {
		all = append(all, suite{folder: f})
	}
	return all
}
