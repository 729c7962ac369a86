package main

import (
	"errors"
	"go/build"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A target is code to be broken, and the tests that should notice.
type target struct {
	name    string
	module  string   // where its go.mod is, from the top of the repository
	folders []string // from there; "..." at the end: and all below
	suites  []suite  // the quickest first
	wanted  int      // percent to be noticed

	patience time.Duration // for one suite; a mutant that makes it take longer is noticed
}

// A suite is the tests of one package.
type suite struct {
	folder string
	args   []string
}

// with returns the arguments of a run that is also to have these. Of a test that the suite runs a part of, no more than that is run.
func (s suite) with(args ...string) []string {
	all := slices.Clone(s.args)
	for _, a := range args {
		if !slices.ContainsFunc(s.args, func(own string) bool { return strings.HasPrefix(own, a+"/") }) {
			all = append(all, a)
		}
	}
	return all
}

// simulation is a short run of the simulation.
var simulation = suite{"verify/simulation", []string{"-test.run=TestHunt|TestWhatOnceFailed", "-sim.hunt=6"}}

var recipes = []string{"recipes/election", "recipes/mutex", "recipes/rwlock", "recipes/semaphore"}

var targets = []target{
	{"coord", ".", []string{"coord"}, append(of(append([]string{"coord", "coord/mem"}, recipes...)...), simulation), 85, 2 * time.Minute},
	{"rules", ".", []string{"coord/driver/rules"}, append(of("coord/driver/rules", "recipes/rwlock", "recipes/semaphore"), simulation), 85, 2 * time.Minute},
	{"recipes", ".", recipes, append(of(recipes...), simulation), 85, 2 * time.Minute},
	{"register", ".", []string{"coord/register"}, append(quick("coord/register"), simulation), 75, 2 * time.Minute},
	{"storekit", ".", []string{"coord/register/storekit"}, append(of("coord/register/storekit"), quick("coord/memcached")...), 75, 5 * time.Minute},
	{"trace", ".", []string{"coord/trace"}, of("coord/trace"), 75, 2 * time.Minute},
	{"zk", ".", []string{"coord/zk"}, of("coord/zk"), 75, 10 * time.Minute},
	{"fence", ".", []string{"fence", "fence/httpfence"}, of("fence", "fence/httpfence"), 85, 2 * time.Minute},
	{"sharedfile", ".", []string{"sharedfile"}, of("sharedfile"), 75, 2 * time.Minute},
	{"file", ".", []string{"coord/file"}, quick("coord/file"), 75, 5 * time.Minute},
	{"memcached", ".", []string{"coord/memcached"}, quick("coord/memcached"), 75, 5 * time.Minute},
	{"etcd", "coord/etcd", []string{"."}, of("."), 75, 10 * time.Minute},
	{"redis", "coord/redis", []string{".", "internal/server"}, quick("."), 75, 10 * time.Minute},
	{"quorum", "coord/redis", []string{"quorum"}, quick("quorum"), 75, 10 * time.Minute},
	{"postgres", "coord/postgres", []string{"."}, quick("."), 75, 15 * time.Minute},
	{"mysql", "coord/mysql", []string{"."}, quick("."), 75, 15 * time.Minute},
	{"nats", "coord/nats", []string{"."}, quick("."), 75, 10 * time.Minute},
	{"backend", "backend", []string{"."}, of("."), 75, 2 * time.Minute},
	{"tool", "cmd/turnwise", []string{"internal/..."}, []suite{
		{own, nil}, {".", []string{"-test.short", "-test.run=^TestScripts$/^file$"}},
	}, 75, 5 * time.Minute},
}

// usual are the targets that run unless others are named: they need no server.
var usual = []string{"coord", "rules", "recipes"}

func of(folders ...string) (all []suite) {
	for _, f := range folders {
		all = append(all, suite{folder: f})
	}
	return all
}

// quick leaves out the tests that are left out where time is short.
func quick(folders ...string) (all []suite) {
	for _, f := range folders {
		all = append(all, suite{f, []string{"-test.short"}})
	}
	return all
}

// own stands for the folder in which the mutant is, if that has tests.
const own = "(own)"

// tried are the suites for a mutant in a folder. Without one, they are all that any mutant is tried with.
func (t target) tried(root, folder string) (all []suite, err error) {
	for _, s := range t.suites {
		folders := []string{s.folder}
		if s.folder == own {
			if folders, err = t.tested(root, folder); err != nil {
				return nil, err
			}
		}
		for _, f := range folders {
			if !slices.ContainsFunc(all, func(s suite) bool { return s.folder == f }) {
				all = append(all, suite{f, s.args})
			}
		}
	}
	return all, nil
}

// tested are those of the target's folders that have tests: only the one of that name, if there is a name.
func (t target) tested(root, name string) (with []string, err error) {
	all, err := t.all(root)
	for _, f := range all {
		tests, _ := filepath.Glob(filepath.Join(root, t.module, f, "*_test.go"))
		if (f == name || name == "") && len(tests) > 0 {
			with = append(with, f)
		}
	}
	return with, err
}

// all are the target's folders, where "..." stands for all below that have code.
func (t target) all(root string) (folders []string, err error) {
	for _, f := range t.folders {
		top, all := strings.CutSuffix(f, "...")
		if !all {
			folders = append(folders, f)
			continue
		}
		module := os.DirFS(filepath.Join(root, t.module))
		err = errors.Join(err, fs.WalkDir(module, path.Clean(top), func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			if d.Name() == "testdata" {
				return fs.SkipDir
			}
			if found, err := build.ImportDir(filepath.Join(root, t.module, name), 0); err == nil && len(found.GoFiles) > 0 {
				folders = append(folders, name)
			}
			return nil
		}))
	}
	return folders, err
}
