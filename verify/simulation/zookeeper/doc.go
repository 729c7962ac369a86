// Package zookeeper is an ensemble of ZooKeeper servers in this process. It speaks ZooKeeper's protocol on connections that
// a [Network] carries, frame by frame, so that a simulation decides what arrives when; it knows no time but the clock's, and
// runs in a testing/synctest bubble.
//
// What clients can notice is as ZooKeeper has it:
//
//   - Each member has a copy of the data of its own, which lags behind the leader's. Changes are agreed to in one order, by a
//     majority. A client's own change is known to its member before the answer. sync makes a member catch up.
//   - A connection's requests are answered in order, and news of nodes come in between, in the order of the changes.
//   - The leader ends sessions, in ticks. It hears twice in a tick from each member which sessions that has heard from. A write
//     by way of another member alone does not put the end off.
//   - A member that is cut off from the leader goes on answering pings and reads for SyncLimit ticks. Requests that need the
//     leader wait, and reach it if the cut heals in time. So does a leader without the others, which also answers sync.
//   - Timeouts are negotiated with each connection: a member with another limit grants another, and the session lasts that long
//     from then on; but a new leader begins with what was granted first.
//   - A member hangs up on a client that has seen more than it knows, before it looks whether it knows the session. A client
//     that is on another member now is not served by way of the one before.
//   - An election takes a while, in which nobody serves.
//   - Containers are removed some time after they have become empty. Numbers of a directory, access rights (world, digest),
//     transactions, the limits of a frame and of connections, errors that take a transaction's number: as there.
//   - Before 3.5.3 there are no containers, before 3.6 no lists of a session's nodes and no watches that stay. Members say so
//     and hang up. From 3.9 on news tells its transaction; from 3.9.2 on exists needs a right.
//
// What is not imitated: what the members say to each other (a change is agreed to at once, or waits until the members reach each
// other again), disks, members that only read (whoever does not ask for one is hung up on, as by a member that does not serve),
// quotas, TTL nodes, reconfiguration, SASL and TLS. The children of a directory, and the nodes of a session that ends,
// are in the order in which they were made; ZooKeeper has them in none.
package zookeeper
