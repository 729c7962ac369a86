// Package postgres carries turnwise's recipes on PostgreSQL, 13 or newer, in one table.
//
//	locks, err := postgres.Connect(ctx, "postgres://app@db.example/app")
//	if err != nil {
//		return err
//	}
//	defer locks.Close()
//	m := mutex.New(locks, "orders/4711")
//
// # Who should use it
//
// Whoever has PostgreSQL already and wants turns in order, fencing tokens, deadlines, elections or read/write locks among
// processes. Who waits costs no connection: a process needs a handful for all of its lines.
//
// If all you need is that two do not run at once, and there is a connection to spare for each who waits, pg_advisory_lock is
// 2 to 3 times as quick and does 6 to 11 times as many hand-offs. It has no token, no deadline and no order that survives its
// connection, and a holder whose connection is cut is not told. SELECT FOR UPDATE has the same limits, and keeps a
// transaction open.
//
// # What it promises
//
// A swap that was answered is on the server's disk; a kill -9, a restart or a terminated backend takes nothing back, and
// nothing is applied twice. Whoever waits is woken by NOTIFY, in the transaction of the swap: never early and never for
// nothing. When the connection to listen on was lost, everybody looks.
//
// A fail-over to a standby that lags behind may take swaps back. It is noticed, by the server's timeline: every session of
// before ends, and nobody is granted for the longest TTL. The same goes for a table that was emptied or made anew, for
// another server at the same address, for a server whose log has become shorter since its disk was put back, and, if it
// runs with fsync=off, for a restart. A store does not go back to a primary that was taken over from.
//
// # What it does not promise
//
// Two primaries at once, each with clients that can reach it alone, let two in; so does a disk put back to where it was
// some three seconds before. Fencing tokens protect what you write to. An operator who empties the table beside running
// holders lets the next one in before the holders have noticed.
//
// The age of a heartbeat is told by the server's clock. It should be slewed, not set.
//
// # What is stored
//
// One table, public.turnwise_register unless [WithTable] says otherwise. Open makes it; for a role that may not, [Schema]
// returns the SQL. The role then needs USAGE on the schema, and SELECT, INSERT, UPDATE and DELETE on the table. Whoever may
// write to it may take any lock.
//
//	SELECT convert_from(key, 'UTF8'), octet_length(value), now() - since FROM turnwise_register WHERE key > '\x01' ORDER BY key;
//
// shows lines (line/NAME), sessions (session/ID) and when each was swapped last. turnwise's own tool shows who holds and who
// waits. Notes go over channels turnwise_…, whose names only those know who may read the table.
//
// # Settings to check
//
//   - synchronous_commit, the isolation of transactions, time limits, search_path: it sets what it needs on its own connections,
//     whatever the defaults of the role are. A user's pool given to [New] lends only its configuration.
//   - A fail-over forgets nothing only if synchronous_standby_names names a standby that takes over.
//   - With several hosts in the URL it goes to the one that is primary. Alone, a standby is refused.
//   - A pooler in transaction mode, such as PgBouncer's, drops notes: give [WithListenURL] the server itself, or whoever
//     waits looks again and again. That is found out by a note to ourselves, and logged. Behind a pooler each request is a
//     transaction in one trip, which costs about twice the work.
//   - Nobody may stay in a transaction for hours who LISTENs, or the queue of all notes fills up and no swap that tells
//     something succeeds; and a transaction of hours anywhere keeps old versions of the rows from being removed.
//   - NOTIFY takes a lock for the whole database until its commit is on disk, and wakes every listening backend. A lock that
//     nobody waits for sends none. A busy lock among many processes is better off in a database of its own.
package postgres
