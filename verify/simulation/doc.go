// Package simulation runs the recipes on the in-process service in an order that a seed decides.
//
// Between driver and service sits a [scheduler]: it parks every request, answer and event, waits until everybody has
// come to rest (testing/synctest), and then lets exactly one thing happen: one of what is parked arrives, a replica
// follows by one change, time passes, or something breaks. As nothing else decides anything, the same seed gives the
// same run.
//
// A [Script] leaves nothing to a seed either: the same few contenders, parcels that arrive in turn, and faults where
// they are written. So every single fault is tried at every step of every recipe, and pairs of them.
//
// After each step the judges, who know nothing of the rules, look at who believes to hold what. At the end everything
// is healed, and everybody must come through within a bound of time and leave nothing behind.
//
//	go test ./verify/simulation                                       a few seconds of it
//	make sim                                                            two million acquisitions
//	go test ./verify/simulation -run TestSim -sim.seed=7 -sim.profile=etcd -sim.recipe=mutex -v    one run, with its trace
//	go test ./verify/simulation -run TestScript -sim.script='etcd mutex lost@7,cut@9' -v                 one script, with its trace
//	make test-planted                                                   shows that missing safeguards are noticed
package simulation
