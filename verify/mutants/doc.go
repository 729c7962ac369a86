// Mutants breaks the code in small ways, one at a time, and counts how often the tests notice: a condition is negated, a
// statement dropped, an error swallowed, nil returned instead of an error, a comparison off by one. Each mutant is built
// with `go test -overlay`, so the files stay as they are; one that does not compile does not count.
//
//	go run ./verify/mutants                                  a sample of each package that needs no server
//	go run ./verify/mutants -sample 20 zk etcd redis         of drivers and stores, on real servers
//	go run ./verify/mutants -seed 7 -sample 200 coord        another sample, and a larger one
//	go run ./verify/mutants -p 1 coord                       one at a time, on a machine that is busy
//	go run ./verify/mutants -only 'Hold.amend' coord         all in functions of this name
//
// Mutants that no test notices are printed. Either a test is missing, or the mutant does no harm; then explained.txt says
// why, and it is not counted.
package main
