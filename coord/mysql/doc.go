// Package mysql carries turnwise's recipes on one MariaDB (10.6 or newer) or MySQL (8.0 or newer). Use it if you have such a
// server already, and a hand-off may take some milliseconds: it cannot tell waiters of a change, so they poll. A restart of
// the server forgets nothing.
//
//	client, err := mysql.Connect(ctx, "user:password@tcp(db:3306)/app?tls=true")
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	return mutex.New(client, "reports").Do(ctx, func(ctx context.Context, h *coord.Hold) error {
//		return build(ctx)
//	})
//
// Each line and each session is a row of one table, turnwise_register. A single statement changes it, and only if nobody has
// changed it since it was read.
//
// # What it promises
//
// All that package coord promises: turns in the order of joining, holds that end before anybody else is let in, tokens that
// rise. A death is noticed when the session's TTL has passed (10 s unless WithTTL says otherwise), by the clock of whoever
// looks on; only a try that does not wait goes by the server's. So a server that was down for a while does not end sessions
// when it is back.
//
// A restart forgets nothing if the server writes to disk before it answers. It does with
//
//	innodb_flush_log_at_trx_commit = 1     the default
//	sync_binlog = 1                        if there is a binary log; MySQL's default, not MariaDB's
//
// Other settings work as well, but with them each restart counts as having forgotten. To change one of them while the server runs, as with
// SET GLOBAL for an import, counts as having forgotten as well, and so does changing it back.
//
// It is noticed when something may have been forgotten: there is another server behind the same address (a replica was
// promoted, or a dump was loaded elsewhere), a disk was put back to an earlier state, or the table was emptied or created
// again. Then all sessions end, and nobody is granted anything until the longest TTL has passed, so that nobody enters
// beside a holder that does not know yet. Tokens may go back then, since the last ones that were given may be lost.
//
// A process that was not there before cannot notice any of that. So whoever opens a session within the longest TTL after the
// server's start, or after the table was first used, waits for the rest of it. So it is after the table was made, as from a dump, or
// renamed, by information_schema.tables.create_time, and so after ALTER TABLE and OPTIMIZE TABLE. That was seen on MariaDB: a server that
// does not tell this time, or leaves it as it is, lets whoever comes in at once. Sessions that are open go on.
//
// # What it does not promise
//
// A table that is made again from a dump of itself has the identity that it had. Processes that were there before do not notice, unless
// a session or a line of theirs is missing there: stop them before such a dump is loaded.
//
// Replication is asynchronous, so a fail-over may lose what was answered. Clients that reach the new primary notice, as
// said. Stop the old primary first, or set read_only there: as long as it takes writes, clients that are still connected to
// it go on beside the others.
//
// The server cannot tell a client of a change. So waiters poll: about every millisecond at first, falling to ten times a
// second later, and less often further back in line. A hand-off takes a millisecond or two, and many waiters are a load on
// the server.
//
// One thing could wake a waiter: KILL QUERY, from another connection, for a SELECT SLEEP in which it waits. That takes 0.2
// ms, while a turn among 16 contenders takes 2.4 ms with polling, so it would be several times as quick. It is not done,
// because there is no knowing whom it hits. A connection has no name but its number, and numbers start over when the server
// restarts: the number that a waiter left behind may be that of the application's next connection. A user needs no special
// right to kill any statement of the same user, and an INSERT that was hit in this way was undone. Through a proxy the
// numbers are those of other connections altogether. Nor does a kill carry a message, so a waiter that is woken must read
// all the same.
//
// One server only. A Galera cluster, and a replication group with several primaries, are refused: their nodes lag behind
// each other. A proxy must lead to one server and leave statements alone: if it sends reads to replicas, each read ends the
// sessions, since another server answers it.
//
// # Settings
//
// The time zone, the isolation level, sql_mode and the timeouts of the server and the user do not matter: each connection sets
// its own. It needs
//
//   - a user with SELECT, INSERT, UPDATE and DELETE on the table. The first process makes the table, and needs CREATE for
//     that; if it has no such right, run what [Schema] returns.
//   - binlog_format ROW or MIXED, if there is a binary log: what runs under READ COMMITTED cannot be logged as statements.
//   - innodb_page_size of 16k, the default, or more: keys are up to 1,100 bytes.
//   - max_allowed_packet: a value is at most half of it. The default of 16 MB is far more than a line of 10,000 needs.
//   - 4 connections for a process, and one on which its session is renewed (see [WithConnections]). A waiter uses none.
//
// Whoever may write to the table may take any lock. A view in its place, another engine than InnoDB, and triggers are refused:
// these only if the user has the right TRIGGER, without which the server shows none.
//
// Unless the DSN says tls=true, everything is sent in clear, or to whoever answers. So a password is then refused, unless the
// server is on this machine: see [WithCleartextPassword].
//
// # What an operator sees
//
//	SELECT name, LENGTH(value), since FROM turnwise_register ORDER BY name;
//
// shows the lines ("line/…"), the sessions ("session/…"), and when each was changed last, in UTC. The two rows at the top
// are the table's own marks. `turnwise line` shows what is in a line. Do not change or delete rows by hand while somebody
// holds a lock: `turnwise break` removes a node, and tells its owner.
//
// Do not lock rows or the table in a transaction that stays open: a lock on the row of a line stops the line. With mysqldump
// use --single-transaction.
package mysql
