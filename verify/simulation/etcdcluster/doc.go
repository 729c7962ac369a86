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
//   - a backup that is put back, with the revisions going back, made up for by others, or bumped and compacted;
//   - a leader that was stopped or is cut off, and renews leases by itself until it notices that another one leads;
//   - a member that is cut off or stopped, the election if it was the leader, requests that wait for that, and streams that
//     ask for a leader;
//   - the limits of a request.
//
// Not imitated, and why that does not matter to a driver:
//
//   - What members say to each other. What has reached the leader is agreed on, unless it was stopped or cut off; then its
//     successor gets it late, or never. A link that stalls one way only can do no more than that: what the leader does not hear
//     agreed to is answered late, and the Network holds any answer for any time; a member that does not hear the leader lags,
//     or waits, as it does here; and while a majority hears the leader nobody else can lead, so what it says by itself, such as
//     the renewal of a lease, is true. Once it hears no majority it gives up within an election timeout, and from then on it is
//     like one that was cut off.
//   - Votes: whoever leads next knows all that was agreed on.
//   - Disks. A member that loses what it has acknowledged is beyond what etcd promises; a backup that is put back is imitated.
//   - The size of what a member keeps. A [Call] may say that a request uses up the quota: it is applied, and answered with the
//     same error as what is refused from then on. Tests of the driver fill real members up.
//   - Users and roles: a [Call] may be refused as they would refuse it. Rights are looked at when a request is applied, so a
//     refusal is like any other answer; a watch that stands goes on without them.
//   - A backup that is put back on some members only: it makes them another cluster, which the others cannot join.
//   - Changes of members, and learners but for what they refuse; gRPC's choice among connections: a client has one, and the
//     Network says which member each of its requests reaches.
//   - A grpc-proxy, except for the numbers that it gives to watches, and for whatever a driver cannot notice. Its own renewals of
//     leases are in verify/model/timed.
package etcdcluster
