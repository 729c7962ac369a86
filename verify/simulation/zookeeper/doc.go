// Package zookeeper is an ensemble of ZooKeeper servers in this process. It speaks ZooKeeper's protocol on connections that
// a [Network] carries, frame by frame, so that a simulation decides what arrives when. Its only clock is that of package
// time, and it runs in a testing/synctest bubble.
//
// What clients can notice is as in ZooKeeper:
//
//   - Each member has its own copy of the data, which lags behind the leader's. A majority agrees to changes, in one order.
//     When a client gets the answer to a change, its member knows of that change. sync makes a member catch up.
//   - A connection's requests are answered in order. News of nodes comes in between, in the order of the changes.
//   - The leader ends sessions, at whole ticks. Twice in a tick, each member tells it which sessions that member has heard
//     from. A write through another member does not put the end off by itself.
//   - A member that is cut off from the leader goes on answering pings and reads for SyncLimit ticks. Requests that need the
//     leader wait, and reach it if the cut heals in time. A leader without the others goes on in the same way, and also
//     answers sync.
//   - Each connection negotiates the timeout. A member with another limit grants another timeout, and the session lasts that
//     long from then on; but a new leader begins with the timeout that was granted first.
//   - A member hangs up on a client that has seen more than the member knows, before it checks whether it knows the session.
//     Once a client is on another member, the previous one no longer serves it.
//   - An election takes a while, during which nobody serves.
//   - Containers are removed some time after they become empty. Also imitated: the numbers of a directory, access rights
//     (world, digest), transactions, limits on frames and connections, and errors that take up a transaction's number.
//   - Before 3.5.3 there are no containers; before 3.6 there are no persistent watches and no way to list a session's nodes.
//     Asked for one of these, a member says so and hangs up. From 3.9 on, news tells its transaction; from 3.9.2 on, exists
//     needs a right.
//
// Not imitated: the messages between members (a change is agreed to at once, or waits until the members reach each other
// again), disks, read-only members (they hang up on clients that do not ask for one, as any member does that does not
// serve), quotas, TTL nodes, reconfiguration, SASL and TLS. The children of a directory, and the nodes of a session that
// ends, come in the order in which they were made; in ZooKeeper they have no order.
package zookeeper
