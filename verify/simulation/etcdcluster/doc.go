// Package etcdcluster is a small etcd cluster within the process, for clients that speak gRPC: the shipped driver on
// clientv3, in a bubble of testing/synctest.
//
// A [Cluster] is the state of all members: the log that they agree on, applied at once by the leader and one entry at a
// time by the others; keys in all their versions, leases, watches. A [Server] has etcd's services before it, on connections
// that are pipes. In between is a [Network], which says when each request, answer and message of a stream arrives.
//
// What is imitated, as etcd 3.7 does it: transactions and their comparisons, ranges with all that they can ask for,
// revisions, versions, compaction; leases with the least TTL, ended by the leader's clock, which it looks at each half
// second, and that get their whole TTL from a new leader unless checkpointed; reads of one member alone, which may lag
// behind, and reads that wait for what was agreed on; a renewal of a lease that has expired; watches from a revision, by
// range, with filters, earlier values, fragments, progress and compaction, and that one which begins in the past is told in
// one go, later; a member that is cut off or stopped, the election when it was the leader, requests that wait for
// that, and streams that ask for a leader; limits of a request.
//
// What is not: raft itself (what has come to the leader is agreed on), users and roles (a [Call] may be refused as they
// would have it), changes of members, gRPC's choice among connections (a client has one, and the Network says which member
// each of its requests reaches), a grpc-proxy but for the numbers that it gives to
// watches, whatever a driver cannot notice.
package etcdcluster
