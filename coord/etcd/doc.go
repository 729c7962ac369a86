// Package etcd lets turnwise's recipes run on etcd 3.4 or newer.
//
//	locks, err := etcd.Connect(ctx, clientv3.Config{Endpoints: []string{"localhost:2379"}})
//	if err != nil {
//		return err
//	}
//	defer locks.Close()
//	m := mutex.New(locks, "orders/4711")
//
// # What is stored
//
// A session is a lease. A contender is a key with that lease; its create revision is its place in the line, and the fencing
// token is that revision times 256 ([coord.TurnBits]):
//
//	turnwise/orders/4711//lock/694d71ddacfda227-17    a contender for the line orders/4711
//	turnwise//session/694d71ddacfda227/epoch          what a join compares; see below
//
// No name has an empty segment, so no line's keys are within another's, and a session's are within none. WithRoot replaces
// "turnwise/". A root within another is a part of it: line x of root a/b is line b/x of root a. The etcd user needs
// readwrite on the root as a prefix, and nothing else:
//
//	etcdctl role grant-permission ROLE readwrite --prefix turnwise/
//
// With [WithNames]([Stock]) contenders stand where etcdctl lock, etcdctl elect and the package concurrency put
// theirs, and wait for one another.
//
// # What it costs
//
// An acquire that meets nobody is one transaction, a release is one transaction, and the next in line learns of it from one
// event and one serializable request. Among the waiters of one client that is a point read. Between clients, if the line is
// longer than two, the request asks whether anybody else is ahead: the answer is short, but etcd goes through the line's
// keys for it, which takes some 5 ms with 4,000 keys. Nothing that is written in the line lets anybody in: a neighbour with
// the same rights could have written it. A session has one watch stream for all its waiters and renews its lease by itself.
// It reuses its keys: new keys each time would stay in etcd's index until the next compaction, and every look at the line
// would come across them.
//
// # What it relies on
//
// A transaction whose reply was lost may still be applied after a read that did not find it. So each join compares the
// session's epoch key. When an outcome is open, the epoch is moved before the node is looked for; after that, whatever was
// under way can no longer be applied.
//
// Something between us and the service may also send a join again after its reply has arrived. While the place stands, that
// does nothing; once it has been left, it makes a node that belongs to nobody. A session looks for such nodes on its lease
// every 20 s, and whenever its stream of events had to be opened again, and takes them away.
//
// A holder believes in its hold until the lease could end at the earliest. A renewal counts only together with a linearizable
// read: a leader that was stopped, and has been replaced, may renew a lease by itself. Reads and writes of the session serve as
// that read; one that is idle reads its own key, three times in a TTL. etcd takes a lease away earlier only if somebody revokes it, or if a leader that was frozen goes on without
// having heard of the renewals (etcd #15247). A watch on the session's own key tells us.
package etcd
