// Package zookeeper is an ensemble of ZooKeeper servers in this process. It speaks ZooKeeper's protocol on connections that
// a [Network] carries, frame by frame, so that a simulation decides what arrives when. Its only clock is that of package
// time, and it runs in a testing/synctest bubble.
//
// What clients can notice is as in ZooKeeper:
//
//   - Each member has its own copy of the data, which lags behind the leader's. A majority agrees to changes, in one order.
//     When a client gets the answer to a change, its member knows of that change. sync makes a member catch up.
//   - Members talk to each other on links, one each way between any two. On each, requests, proposals, acknowledgements,
//     commits, pings, what is said in answer to those, and the end of the connection arrive in order. Any may be held, for any
//     time, with clients still served at both ends. Normally everything else arrives at once. In a slow ensemble each message
//     waits until it is let through: a change is decided, logged by one member, logged by another, agreed to, known to be
//     so, and made, and a member may die between any two of these. In any ensemble one may be doomed to die over a proposal
//     that has come so far and no further; see [Stage].
//   - A leader that dies leaves behind what it has proposed. Who leads next has logged the most among a majority, and what it
//     has logged is agreed to. What others have logged is forgotten when they follow it. Clients lose their connections.
//   - A process that dies may leave its last words on their way. If its machine dies, only the first of them arrive, on each link
//     as many as chance will have it, and perhaps nobody is told that it has gone.
//   - A member gives up a leader that is silent for SyncLimit ticks; a leader gives up a member that is, or that leaves a
//     proposal without an acknowledgement, and gives up itself without a majority.
//   - A connection's requests are answered in order. News of nodes comes in between, in the order of the changes.
//   - The leader ends sessions, at whole ticks. Twice in a tick it pings each member, whose reply says which sessions that
//     member has heard from. A write through another member does not put the end off by itself.
//   - A member that is cut off from the leader goes on answering pings and reads for SyncLimit ticks. Requests that need the
//     leader wait, and reach it if the cut heals in time. A leader without the others goes on in the same way, and also
//     answers sync, even while another one leads already.
//   - Each connection negotiates the timeout. A member with another limit grants another timeout, and the session lasts that
//     long from then on; but a new leader begins with the timeout that was granted first.
//   - A member hangs up on a client that has seen more than the member knows, before it checks whether it knows the session.
//     Once a client is on another member, the previous one no longer serves it.
//   - An election takes a while, during which nobody serves.
//   - Containers are removed some time after they become empty. Also imitated: the numbers of a directory, also at their end,
//     access rights (world, digest), transactions, limits on frames and connections, and errors that take up a transaction's number.
//   - Before 3.5.3 there are no containers; before 3.6 there are no persistent watches and no way to list a session's nodes.
//     Asked for one of these, a member says so and hangs up. From 3.9 on, news tells its transaction; from 3.9.2 on, exists
//     needs a right.
//
// Not imitated, and why that does not matter to clients:
//
//   - Votes, and what a leader sends to those who begin to follow it. Both are done at once among members that hear each other
//     both ways. A member serves nobody until they are over, so if they took longer, it would only come back later.
//   - Disks: what is proposed to a member is logged and acknowledged at once. A slow disk looks like a slow link. That a member
//     loses what it has acknowledged is beyond what ZooKeeper promises. The leader logs first, but its own log is one among
//     many: if others had logged before it died, that would look as if it had told them and then died.
//   - A backup that is put back on some members only. If one that has more is there when they elect, it leads, and they look as if
//     they had lagged. If it comes later, it is made to forget what they do not have: then it looks as if the backup was put back
//     on all, with this one away for longer. If there were elections since the backup, the same transaction numbers may have been
//     used for different things, and then members differ for good, which no client can make up for.
//   - The time between a leader's knowing that something is agreed to and its own clients' knowing: other members lag, and
//     clients are on those, too.
//   - A leader that is stopped and goes on: it looks like one whose links were held, but for the pings that it owes. These
//     are in verify/model/timed. All members have one clock.
//   - Read-only members (they hang up on clients that do not ask for one, as any member does that does not serve), quotas, TTL
//     nodes, reconfiguration, observers that follow an observer, SASL and TLS: coord/zk uses none of these.
//
// The children of a directory, and the nodes of a session that ends, come in the order in which they were made; in ZooKeeper
// they have no order.
package zookeeper
