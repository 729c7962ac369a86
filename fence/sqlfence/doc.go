// Package sqlfence refuses stale writes to a SQL database (PostgreSQL, MariaDB, MySQL or SQLite) through database/sql.
//
//	fences, err := sqlfence.New(sqlfence.Postgres, "")     // the table is called turnwise_fence
//	err = fences.Create(ctx, db)                           // or run what Schema returns
//	...
//	tx, err := db.BeginTx(ctx, nil)
//	defer tx.Rollback()
//	err = fences.Pass(ctx, tx, "orders", fence.Stamp{Token: hold.Token()})
//	if err != nil {
//		return err // coord.ErrStale: somebody else holds the lock by now
//	}
//	_, err = tx.ExecContext(ctx, "UPDATE orders SET ...")
//	return tx.Commit()
//
// The lock may be on any engine; it need not be in this database.
//
// # Why nothing comes between
//
// Pass writes the stamp into the row of its line, which the database keeps locked until the transaction ends. So a
// newer holder's Pass waits until the older one's transaction has ended, and any Pass of the older one is refused after
// that. A stamp whose transaction is not committed has not passed either.
//
// Let Pass be the first statement. Then what you read after it is what all earlier holders have left (in MariaDB and
// MySQL, a transaction sees only what was there when it first read), and in SQLite the transaction is the one writer
// from the start.
//
// # A holder that is stopped inside its transaction
//
// It keeps the row locked, and newer holders wait in Pass until their contexts end. So have the database end
// transactions that stand still: idle_in_transaction_session_timeout in PostgreSQL, and idle_transaction_timeout in
// MariaDB. MySQL ends the wait after innodb_lock_wait_timeout, and the transaction when its connection is gone.
//
// As with any transaction, the database may end it with a deadlock or a serialization failure: roll back and try again.
//
// # The table
//
// One row for each line. Remove a row only if no process that has written with it can still run.
//
//	line   the name
//	epoch  the greatest stamp that has passed: its epoch,
//	token  and its token
//	passes MariaDB and MySQL: how often a stamp has passed
//
// On PostgreSQL, whoever owns the table, or may make triggers on it, can have code of his run with the rights of all who write to
// it. In a schema where others may create tables (public, in releases before 15), somebody may have made it before you. So
// Create, and the first Pass of a Fence, refuse a table that belongs neither to the role that asks, nor to the owner of the database,
// nor to a superuser: see [Fence.OwnedBy]. A table that takes its place later is not looked at.
//
// On MariaDB and MySQL, where a table has no owner, whoever may create tables in the database decides what yours is like, if he comes
// before you: one with other keys or of another engine lets stale holders through. So Create refuses one that is not what Schema
// returns. Pass does not look, since a transaction that has read sees nothing newer. So call Create when the program starts, also
// where somebody else has made the table.
//
// Writers that are not in Go do the same. In PostgreSQL and SQLite (3.24 or newer), with the line, the epoch and the
// token:
//
//	INSERT INTO turnwise_fence AS f (line, epoch, token) VALUES ($1, $2, $3)
//	ON CONFLICT (line) DO UPDATE SET epoch = excluded.epoch, token = excluded.token
//	WHERE (f.epoch, f.token) <= (excluded.epoch, excluded.token)
//
// It changes one row if the stamp has passed, and none if it is stale.
package sqlfence
