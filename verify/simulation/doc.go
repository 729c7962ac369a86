// Package simulation runs the recipes, the engine and the drivers as they are shipped, in an order that a seed decides. The
// service behind the drivers, the far side, is one of three: a store of registers in memory, for coord/register; an ensemble
// that speaks ZooKeeper's protocol (package zookeeper), for coord/zk; or an etcd cluster behind its gRPC services (package
// etcdcluster), for coord/etcd.
//
// Between a driver and its far side sits a [scheduler]. It parks every request, answer and event, waits until no goroutine
// can go on (testing/synctest), and then lets exactly one thing happen: a parked parcel arrives, a replica follows by one
// change, servers hear from each other, time passes, or something breaks.
//
// A [Script] does not even need a seed: its few contenders are always the same, parcels arrive in turn, and faults come
// where it says. The tests try every single fault at every step of every recipe, and pairs of faults.
//
// On registers, requests and answers may be lost, late or repeated, and may overtake each other. Notes arrive in order, and
// are lost only if the listener hears that some were. A stranger tells what he likes. A seed gives the same run in five of six cases: a driver puts what
// several contenders of its process want into one request, and the runtime decides which of them comes first. (All else that
// is random in a driver follows from the time in the bubble; see package chance.) So every run keeps its trace, which is
// shown if something goes wrong. A script nearly always finds again what it found once.
//
// On etcd, requests and answers may be lost, late or repeated, and may overtake each other. The messages of a stream arrive
// in order, and a lost one breaks the stream, as a broken connection would. Members lag behind, are cut off, and elect
// another leader; in some runs a grpc-proxy stands in between. A seed gives the same run in about seven of ten cases, since
// the runtime schedules gRPC's goroutines, too. The documentation of package etcdcluster says what it imitates; it is
// checked against real servers.
//
// On ZooKeeper and etcd rights are taken away now and then, and given back: an ACL of the root, a line or a node, what may be
// read or written below a prefix, or a refusal of one request. Whoever is refused must be told so, and everybody is served once
// the rights are back. Operators also remove lines, and everything, while they are in use.
//
// Backups are put back. On etcd the revisions go back with them, or others make up for them at once, or they are bumped. On
// ZooKeeper the numbers of some lines are almost used up.
//
// On ZooKeeper, a parcel is a frame of the protocol, and a connection keeps its order. Members follow the leader when the
// scheduler says so; they are cut off from each other, killed in the middle of a proposal or with their last words under way, and
// restored from a backup; time passes for them as for
// everybody else. Any direction between two members may stand still for any time, and then the other one. In a quarter of
// the runs all that members say to each other also waits for the scheduler, fewer things break, sessions idle now and then,
// and holds are long. When two goroutines of a process are about to write, the runtime decides which comes first, so only
// three in ten seeds give the same run again (three in four with -cpu 1). In a script each client does one thing at a time.
//
// All members of an ensemble run the same version of ZooKeeper, 3.4, 3.5, 3.8 or 3.9, and some ensembles have an observer.
// In a quarter of the runs on ZooKeeper and etcd, nodes are named as other tools name them; on ZooKeeper, the clients of a
// run then follow different tools. Holders send writes under the guards that the drivers have for data in the same service
// (zk.Guard, etcd.Guard), some of them long after the hold is over.
//
// In a quarter of the runs, whatever follows the end of a session takes no time: nothing is parked until everybody has come
// to rest. A client's goroutines then race with each other, as they may when the service is quick, and such a run is seldom
// the same again.
//
// After each step the judges, which know nothing of the rules, look at who believes that it holds what. At the end
// everything is healed; then every contender must be served within a certain time, and must leave nothing behind.
//
//	go test ./verify/simulation                                                                   a few seconds of it
//	make sim                                                                                      half a million acquisitions
//	go test ./verify/simulation -run TestSim -sim.seed=7 -sim.profile=etcd -sim.recipe=mutex -v   one run, with its trace
//	go test ./verify/simulation -run TestScript -sim.script='etcd mutex lost@7,cut@9' -v          one script, with its trace
//	go test ./verify/simulation -run 'TestSim|TestEvery' -sim.profile=etcd -sim.part=1 -v         everything on one profile
//	make test-planted                                                                             that planted bugs are noticed
package simulation
