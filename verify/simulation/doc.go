// Package simulation runs the recipes on the in-process service in an order that a seed decides.
//
// Between driver and service sits a [scheduler]: it parks every request, answer and event, waits until everybody has
// come to rest (testing/synctest), and then lets exactly one thing happen: a parked parcel arrives, a replica follows
// by one change, time passes, or something breaks. Nothing else decides anything, so the same seed gives the same run.
//
// A [Script] does not even need a seed: it has the same few contenders, parcels that arrive in turn, and faults where
// it says. So every single fault is tried at every step of every recipe, and so are pairs of faults.
//
// After each step the judges, who know nothing of the rules, look at who believes to hold what. At the end everything
// is healed, and everybody must be served within a certain time and leave nothing behind.
//
//	go test ./verify/simulation                                       a few seconds of it
//	make sim                                                            two million acquisitions
//	go test ./verify/simulation -run TestSim -sim.seed=7 -sim.profile=etcd -sim.recipe=mutex -v    one run, with its trace
//	go test ./verify/simulation -run TestScript -sim.script='etcd mutex lost@7,cut@9' -v                 one script, with its trace
//	make test-planted                                                   shows that missing safeguards are noticed
package simulation
