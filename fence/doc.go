// Package fence refuses the writes of processes that have lost the lock.
//
// A process can be paused between looking at its hold and writing, for longer than its hold lasts. When it goes on,
// somebody else holds the lock, and no lock service can stop the write that comes now: only the place that is written
// to can. So each write brings the token of its hold, and the place refuses tokens that are smaller than one it has
// seen. That is a fence. A write that is refused gets the error [coord.ErrStale].
//
// [Local] is one for a place in the same process. These are fences for other places:
//
//	sqlfence            a row in the same database, in the transaction that writes (database/sql)
//	redisfence          a key in the same Redis, in the script that writes
//	httpfence           a handler before others; the token comes in a header
//	package sharedfile  a file that many processes read and write
//
// A write of an older hold can still come before the first write of a newer one, but never after it. A holder that is
// to change what it finds there must pass the fence first, and read only then.
//
// # Another engine
//
// Tokens grow along a line for as long as the engine remembers it: see docs/engines.md. When a lock moves to another
// engine, or its engine is set up again from scratch, tokens start again, and a fence that has seen greater ones
// refuses everybody. So what a fence compares is a [Stamp]: first an epoch, a number that you choose, and then the
// token. Leave the epoch zero at first, and raise it by one in the configuration of all writers when the lock moves:
//
//	stamp := fence.Stamp{Token: hold.Token()}            // on ZooKeeper
//	stamp := fence.Stamp{Epoch: 1, Token: hold.Token()}  // since the lock is on etcd
//
// The first write of the new epoch shuts out writers that still use the old one. Stop the old holders first all the
// same: until that write they hold a lock of their own.
package fence
