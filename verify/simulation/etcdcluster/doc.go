// Package etcdcluster is a small etcd cluster in this process, for clients that speak gRPC: the driver as it is shipped, on
// clientv3, in a testing/synctest bubble.
//
// A [Cluster] is the state of all members: the log that they agree on, applied at once by the leader and one entry at a
// time by the others; keys in all their versions, leases, watches. A [Server] offers etcd's gRPC services in front of it, on
// pipes in memory. Between the two is a [Network], which decides when each request, answer and message of a stream arrives.
//
// What is imitated, as etcd 3.7 does it:
//
//   - transactions and their comparisons, ranges with everything that they can ask for, revisions, versions, compaction;
//   - leases with a least TTL, ended by the leader's clock, which the leader looks at every half second; after an election
//     they have their whole TTL again (etcd takes checkpoints only of what is left above five minutes, more than the driver
//     asks for); the renewal of a lease that has expired;
//   - reads of one member alone, which may lag behind, and reads that wait for what was agreed on;
//   - watches from a revision, by range, with filters, earlier values, fragments, progress and compaction; one that begins in
//     the past is told what has happened since in one go, later;
//   - a leader that was stopped or is cut off, and renews leases by itself until it notices that another one leads;
//   - a member that is cut off or stopped, the election if it was the leader, requests that wait for that, and streams that
//     ask for a leader;
//   - the limits of a request.
//
// Not imitated: raft itself (what has reached the leader is agreed on), users and roles (a [Call] may be refused as they
// would refuse it), changes of members, gRPC's choice among connections (a client has one, and the Network says which member
// each of its requests reaches), a grpc-proxy except for the numbers that it gives to watches, and whatever a driver cannot
// notice.
package etcdcluster
