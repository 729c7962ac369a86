// Package zk lets turnwise's recipes run on ZooKeeper, through github.com/go-zookeeper/zk.
//
//	client, err := zk.Connect(ctx, []string{"zk1:2181", "zk2:2181", "zk3:2181"})
//	m := mutex.New(client, "orders/42")
//
// The driver makes its own connections: New takes addresses, not a *zk.Conn that you already have. When the service ends a
// session, such a Conn carries on with a new one and sends it whatever was still queued: a lock requested in one session
// would be held in another. The driver therefore uses one Conn per session, closes it in the callback that reports the end
// of the session, and works out from the frames on the wire how long a session is surely kept.
//
// A line is a directory, and each contender in it is an ephemeral sequential node, named the way the client library's
// zk.Lock names its own: _c_<32 hex digits>-<kind>-<10 digits>. Processes that use zk.Lock on the same directory therefore
// stand in the same line; WithNames does the same for Curator and Kazoo.
//
// # What it needs from the server
//
// ZooKeeper 3.5.3 and newer remove the directories of empty lines themselves (they are container nodes). Older servers have
// no such nodes. There the driver makes plain ones, and when a session is closed it removes those that it made and that are
// empty.
//
// Everything is created with the access rights of WithACL. Without that option it is open to everybody or, with
// WithDigestAuth, to that user alone. That includes the directories, so other users cannot join. Leaving needs the DELETE
// right on the directory. Where CREATE is granted and DELETE refused, a node stays until its session ends.
//
// Where rights are set, a root or a line that gives CREATE, DELETE or ADMIN to others is refused: somebody else made it, or
// it was made before the rights were set. Once made, the root stays. docs/security.md says what each right lets a neighbour
// do.
//
// When a backup is restored, nodes that had left stand in line again. A client that is still connected asks which nodes its
// session has, and gives the session up if it finds one that it did not expect. Servers before 3.6 cannot answer that;
// there, such a node keeps those behind it waiting until the client is closed.
//
// # How many nodes one session may have
//
// When a session ends, the service puts the paths of all its nodes into one transaction. If that is larger than
// jute.maxbuffer allows, the ensemble stops serving, and a restart does not help (ZOOKEEPER-4306). The paths of one
// client's nodes, its waiters included, may therefore take at most a megabyte: 14,000 short names, or 1,200 of 800 bytes. A
// join beyond that gets an error that says so, and succeeds only after other nodes of the client have left; use another
// client for the rest.
//
// # What neighbours can do
//
// Anyone with the CREATE right on a line's directory can stand in the line, and so keep those behind waiting. Whether a
// waiter is let in depends only on who stands ahead, so no node that a neighbour makes, writes to or takes away from its
// own place lets anybody in beside the holder. With DELETE, a neighbour can take the holder's node away: the hold ends as
// soon as the holder's client hears of it, which may be a moment after the next one was let in. A node that may not be read
// is shown without an owner; a waiter behind it asks once a second whether it has gone.
//
// # What others may put into a line
//
// Each join lists the line, including everything that others have put there. A client asks for one list of a line at a
// time, and all joins that arrive meanwhile share the next. A list of more than 32 MB, half a million names, is not
// accepted: the join gets an error. Nodes with more than a megabyte of data are shown without it. An answer that makes no
// sense, or does not follow ZooKeeper's protocol, ends the connection, and the next server is tried.
//
// # How long a hold is surely held
//
// Until when a session is sure is said by coord/driver/deadlines, type Links, with what that assumes: 98 % of the timeout after
// a request was sent of which the leader surely knows, and never longer than that after the latest write that a majority has
// agreed to was sent. Reads and pings do not count: a server that has lost its leader, or a leader that has lost its followers,
// goes on answering for syncLimit ticks, 10 s in the sample configuration, while the others end the session. docs/guarantees.md
// has a drawing.
//
// While one of the session's nodes stands in a line, the driver makes some seven requests in a timeout for that, unless those of
// the application do: syncs, and among three of them one write that changes nothing. That leaves 0.42 of the timeout or more at
// any time. While nothing stands, there are three or four syncs, so that the session is sure as soon as it is needed. If a
// server does not answer one for three tenths of the timeout, the driver moves to another server.
//
// All servers of the ensemble must have the same tickTime, minSessionTimeout and maxSessionTimeout. A server that grants
// less than the one before cuts the session's timeout for the whole service. The driver then gives the session up at once,
// logs a warning, and goes on with another one; but if the server's answer is lost, nobody here knows, and for a time as
// long as the difference a holder may carry on beside the next one.
//
// # The fencing token
//
// The token is made from the id of the transaction that created the directory plus the number of the node in it: 256 times
// that, since turns of one place are counted too ([coord.TurnBits]). Each of our nodes takes a transaction, so when the directory is removed and created again, its new id is above all earlier tokens. If
// others make many nodes in one transaction, the numbers can run ahead of the transactions. The line then starts over in a
// new directory as soon as it is empty.
package zk
