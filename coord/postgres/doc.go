// Package postgres carries turnwise's recipes on PostgreSQL, 13 or newer, in one table. Waiters are told of their turn, and a
// restart of the server forgets nothing.
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
// Anyone who has PostgreSQL already and wants turns in order, fencing tokens, deadlines, elections or read/write locks among
// processes. A waiter costs no connection: a process needs a handful for all of its lines.
//
// If all you need is that two do not run at once, and you have a connection to spare for each waiter, pg_advisory_lock is 2
// to 3 times as quick and does 6 to 11 times as many hand-offs. But it has no token, no deadline and no order that survives
// its connection, and a holder whose connection is cut is not told. SELECT FOR UPDATE has the same limits, and keeps a
// transaction open.
//
// # What it promises
//
// A swap that was answered is on the server's disk. A kill -9, a restart or a terminated backend takes nothing back, and
// nothing is applied twice. A waiter is woken by NOTIFY, in the transaction of the swap: never early and never for nothing.
// When a process has lost the connection on which it listens, all its waiters look.
//
// A fail-over to a standby that lags behind may take swaps back. This is noticed by the server's timeline: every earlier
// session ends, and nobody is granted anything for the longest TTL. The same goes for a table that was emptied or created
// again, for another server at the same address, for a server whose log has become shorter because its disk was put back to
// an earlier state, and for a restart if the server runs with fsync=off or does not tell the role its identifier (EXECUTE on
// pg_control_system() was revoked). A store does not go back to a primary that another one has replaced.
//
// A process that was not there before cannot notice any of that. So whoever opens a session within the longest TTL after the
// server's start, or after the table was first used, waits for the rest of it. So it is after the table, its schema or its database
// was made, as from a dump or a template, or changed, such as by ALTER, RENAME, GRANT or VACUUM FULL: another may have stood in its
// place, or an older state of it. Sessions that are open go on.
//
// # What it does not promise
//
// Two primaries at once, each with clients that can reach only that one, let two in. So does a disk that is put back to its
// state of some three seconds before. Fencing tokens protect what you write to.
//
// A try that does not wait goes by the server's clock. It should be slewed, not set.
//
// # What is stored
//
// One table, public.turnwise_register unless [WithTable] says otherwise. Open makes it; if the role may not, [Schema]
// returns the SQL. The role then needs USAGE on the schema, and SELECT, INSERT, UPDATE and DELETE on the table. Anyone who
// may write to the table may take any lock. Give nobody TRIGGER there, which GRANT ALL includes: what a trigger does, it does
// with the rights of whoever writes.
//
// For the same reason a table is used only if it belongs to the role itself, to the owner of the database, to a superuser or to
// the role of [WithOwner], and if no trigger, rule, policy or computed column is there. Anything else is coord.ErrDenied.
// In releases before 15, and in databases that come from them, everybody may create in the schema public. The store logs a
// warning then, and each request is a transaction that makes sure of the table, which is about twice the work. To mend that:
//
//	REVOKE CREATE ON SCHEMA public FROM PUBLIC;
//
//	SELECT convert_from(key, 'UTF8'), octet_length(value), now() - since FROM turnwise_register WHERE key > '\x01' ORDER BY key;
//
// shows lines (line/NAME), sessions (session/ID) and when each was swapped last. turnwise's own tool shows who holds and who
// waits. Notes go over channels turnwise_…; only those who may read the table know their names.
//
// # Settings to check
//
//   - synchronous_commit, the isolation of transactions, time limits, search_path: the store sets what it needs on its own
//     connections, whatever the defaults of the role are. From a pool given to [New] it takes only the configuration.
//   - A fail-over forgets nothing only if synchronous_standby_names names a standby that takes over.
//   - With several hosts in the URL the store goes to the one that is primary. A standby alone is refused.
//   - A pooler in transaction mode, such as PgBouncer's, loses notes: name the server itself with [WithListenURL], or
//     waiters have to poll. The store finds out by a note to itself, and logs it. Behind a pooler each request is a
//     transaction in one trip, which is about twice the work.
//   - No session that LISTENs may stay in a transaction for hours: the server's queue of notifications fills up, and then no
//     swap with notes succeeds. And a transaction of hours anywhere keeps old versions of the rows from being removed.
//   - NOTIFY takes a lock for the whole database until its commit is on disk, and wakes every listening backend. A turnwise
//     lock that nobody waits for needs no NOTIFY. A busy lock among many processes is better off in a database of its own.
package postgres
