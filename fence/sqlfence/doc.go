// Package sqlfence refuses stale writes to a SQL database: PostgreSQL, MariaDB and MySQL, SQLite, by database/sql.
//
//	fences, err := sqlfence.New(sqlfence.Postgres, "")     // the table is called turnwise_fence
//	err = fences.Create(ctx, db)                           // or run what Schema returns
//	...
//	tx, err := db.BeginTx(ctx, nil)
//	defer tx.Rollback()
//	err = fences.Pass(ctx, tx, "orders", fence.Stamp{Token: hold.Token()})
//	if err != nil {
//		return err // coord.ErrStale: somebody else holds by now
//	}
//	_, err = tx.ExecContext(ctx, "UPDATE orders SET ...")
//	return tx.Commit()
//
// The lock may be on any engine; it need not be in this database.
//
// # Why nothing comes between
//
// Pass writes the stamp into the row of its line, which the database keeps locked until the transaction ends. So a newer
// holder's Pass waits until the older one's transaction has ended, and the older one's Pass after that is refused. What is
// not committed has not passed either.
//
// Let Pass be the first statement. Then what is read after it is what all earlier holders have left (in MariaDB and MySQL,
// a transaction sees no more than what was there when it first read), and SQLite has its one writer from the start.
//
// # A holder that is stopped inside its transaction
//
// It keeps the row locked, and newer holders wait in Pass until their contexts end. So let the database end transactions
// that stand still: idle_in_transaction_session_timeout in PostgreSQL, and idle_transaction_timeout in MariaDB. MySQL ends
// the wait after innodb_lock_wait_timeout, and the transaction when its connection is gone.
//
// As with any transaction, the database may end it with a deadlock or a serialization failure: roll back and try again.
//
// # The table
//
// One row for each line. Remove a row only if nobody who has written with it can still run.
//
//	line   the name
//	epoch  the greatest stamp that has passed: its epoch,
//	token  and its token
//	passes MariaDB and MySQL: how often one has passed
//
// Whoever writes without Go does the same thing. In PostgreSQL and SQLite (3.24 or newer), with the line, epoch and token:
//
//	INSERT INTO turnwise_fence AS f (line, epoch, token) VALUES ($1, $2, $3)
//	ON CONFLICT (line) DO UPDATE SET epoch = excluded.epoch, token = excluded.token
//	WHERE (f.epoch, f.token) <= (excluded.epoch, excluded.token)
//
// It is one row if it has passed, and none if the token is stale.
package sqlfence
