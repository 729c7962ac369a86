// Package mysql carries turnwise's recipes on one MariaDB (10.6 or newer) or MySQL (8.0 or newer).
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
// Each line and each session is a row of one table, turnwise_register, and is changed by one statement that changes it only
// if nobody has changed it since it was read.
//
// # What it promises
//
// All that package coord promises: turns in the order of joining, holds that end before anybody else is let in, tokens that
// rise. Who dies is noticed when its session's TTL has passed (10 s unless WithTTL says otherwise), by the server's clock
// and only while somebody looks, so a server that was down for a while does not end sessions when it is back.
//
// A restart forgets nothing, if the server writes to disk before it answers. That is so with
//
//	innodb_flush_log_at_trx_commit = 1     the default
//	sync_binlog = 1                        if there is a binary log; MySQL's default, not MariaDB's
//
// With other settings it works, too, but each restart counts as having forgotten.
//
// Whoever has forgotten something is noticed: another server behind the same address, be it a replica that was promoted or
// a dump that was loaded; a disk that was put back to an earlier state; a table that was emptied or made anew. Then all
// sessions end, and nobody is granted anything until the longest TTL has passed, so that nobody enters beside a holder who
// still believes. Tokens may go back then, since the numbers that were given last may be among what is gone.
//
// # What it does not promise
//
// Replication is asynchronous, so a fail-over may lose what was answered. It is noticed, as said, by those who reach the
// new primary. Stop the old one first, or set read_only there: as long as it takes writes, those who are still connected to
// it go on, beside the others.
//
// The server cannot tell a client of a change. So those who wait ask: about every millisecond at first, up to ten times a
// second later, those further back less often. A hand-off takes a millisecond or two, and many who wait are a load.
//
// One thing could wake a waiter: KILL QUERY, from another connection, for a SELECT SLEEP that it waits in. That takes 0.2 ms, and
// a turn among 16 contenders takes 2.4 ms with asking, so it would be several times as quick. It is not done, since it cannot be
// known whom it hits. A connection has no name but its number, and numbers begin anew when the server restarts: the number
// that a waiter left may be that of the application's next connection, and any statement of the same user can be killed without
// a right; an INSERT that was hit so was undone. Through a proxy the numbers are those of other connections altogether. Nor does
// it say anything, so whoever is woken must read all the same.
//
// One server only. A Galera cluster, and a replication group with several primaries, are refused: their nodes lag behind each
// other. A proxy must lead to one server and leave statements alone: with a splitter that sends reads to replicas each
// read ends the sessions, since it comes from another server.
//
// # Settings
//
// The time zone, the isolation level, sql_mode and the timeouts of the server and the user do not matter: each connection sets
// its own. It needs
//
//   - a user with SELECT, INSERT, UPDATE and DELETE on the table. The first to come makes it, and needs CREATE; if nobody may,
//     run what [Schema] returns.
//   - binlog_format ROW or MIXED, if there is a binary log: what runs under READ COMMITTED cannot be logged as statements.
//   - innodb_page_size of 16k, the default, or more: keys are up to 1,100 bytes.
//   - max_allowed_packet: a value is at most half of it. The default of 16 MB is far more than a line of 10,000 needs.
//   - 4 connections for a process (see [WithConnections]). Who waits uses none.
//
// A password is not sent as it is, but everything else is, unless the DSN says tls=true.
//
// # What an operator sees
//
//	SELECT name, LENGTH(value), since FROM turnwise_register ORDER BY name;
//
// shows the lines ("line/…"), the sessions ("session/…"), and when each was changed last, in UTC. The two rows at the top
// are the table's own marks. What is in a line shows `turnwise line`. Do not change or delete rows by hand while somebody
// holds a lock: `turnwise break` removes a node, and tells its owner.
//
// Do not lock rows or the table in a transaction that stays open: who locks the row of a line stops it. With mysqldump use
// --single-transaction.
package mysql
