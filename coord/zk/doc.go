// Package zk lets turnwise's recipes run on ZooKeeper, through github.com/go-zookeeper/zk.
//
//	client, err := zk.Connect(ctx, []string{"zk1:2181", "zk2:2181", "zk3:2181"})
//	m := mutex.New(client, "orders/42")
//
// It makes its own connections: New takes addresses, not a *zk.Conn that you already have. Such a Conn goes on with a
// new session when the service has ended the old one, and does there what was still queued: a lock that was asked for
// in one session would be held in another. So the driver has a Conn for each session, closes it in the callback that
// brings the news of the end, and tells from the frames on its wire how long a session is surely kept.
//
// A line is a directory, and whoever stands in line is an ephemeral sequential node in it, named as zk.Lock of the
// client library names its own: _c_<32 hex digits>-<kind>-<10 digits>. So processes that use zk.Lock on the same
// directory stand in the same line; WithNames does the same for Curator and for Kazoo.
//
// # What it takes from the server
//
// ZooKeeper 3.5.3 or newer removes the directories of empty lines by itself (they are container nodes). Older servers
// have no such nodes; then the driver makes plain ones, and removes those that it made when a session is closed.
//
// Everything is created with the access rights of WithACL. Without that option it is open to everybody or, with
// WithDigestAuth, to that user alone. That includes the directories, so other users cannot join. Leaving takes the
// DELETE right on the directory. A service may grant CREATE and refuse DELETE; then a node stays until its session
// ends.
//
// Where rights are set, a root or a line that gives CREATE, DELETE or ADMIN to others is refused: somebody else made it,
// or it is from before. The root, once made, stays. docs/security.md tells what each right lets a neighbour do.
//
// When a backup is put back, nodes stand again that had left. A client that is still connected asks which nodes its session has,
// and gives the session up if it finds one that it did not expect. Servers before 3.6 cannot say; there such a node keeps those
// behind it waiting until the client is closed.
//
// # How many nodes one session may have
//
// When a session ends the service puts the paths of all its nodes into one transaction, and an ensemble whose transaction
// is larger than jute.maxbuffer allows does not serve again, not even after a restart (ZOOKEEPER-4306). So the paths of one
// client's nodes, its waiters included, take a megabyte at most: 14,000 short names, or 1,200 of 800 bytes. Who joins beyond
// that gets an error that says so, and others of the client have to leave first; use another client for the rest.
//
// # What neighbours can do
//
// Whoever has the CREATE right on a line's directory can stand in the line, and so keep those behind waiting. What is let
// in rests on who stands ahead alone, so no node that a neighbour makes, writes to or takes away from its own place lets
// anybody in beside the holder. With DELETE a neighbour can take the holder's node away: the hold ends as soon as that is
// heard of, which may be a moment after the next one was let in. A node that may not be read is shown without an owner;
// whoever waits behind it asks once a second whether it has gone.
//
// # What others may put into a line
//
// Whoever joins lists the line, all that others have put there included. A client asks for one list of a line at a time,
// and all who join meanwhile share the next. A list of more than 32 MB, half a million names, is not taken: who joins gets an
// error. Nodes with more than a megabyte of data are shown without it. An answer that makes no sense, or is not of ZooKeeper's
// protocol, ends the connection, and the next server is tried.
//
// # How long a hold is surely held
//
// While one of the session's nodes stands in a line, only an answer that a majority of the servers has agreed to vouches
// for the session, until 54 % of its timeout after the request was sent. A server that has lost its leader, or a leader
// that has lost its followers, goes on answering for syncLimit ticks, 10 s in the sample configuration, while the others
// end the session; so reads and pings do not count. The rest of the timeout allows for what a leader does not know when
// one of its followers is cut off, with ticks of up to half the timeout, and for clocks that differ. After a time in which
// nothing got through, as a greeting was late or the link had stalled, an answer vouches for less.
//
// A write that changes nothing is made every eighth of the timeout, unless others are made anyway; none while nothing
// stands in line. A server that does not answer it for three tenths of the timeout is left for another one.
//
// All servers of the ensemble must have the same tickTime, minSessionTimeout and maxSessionTimeout. A server that grants
// less than the one before cuts the session's timeout for the whole service. The driver then gives the session up at once,
// logs a warning, and goes on with another one; but if the server's answer is lost, nobody here knows, and for as long as
// the difference a holder may go on beside the next one.
//
// # The fencing token
//
// It is the id of the transaction that created the directory plus the number of the node in it. Each node of ours takes
// a transaction, so when the directory is removed and created anew, its new id is above all tokens so far. If others make
// many nodes in one transaction, numbers run ahead of that; then the line begins anew, in a new directory, as soon as it
// is empty.
package zk
