// Package model walks every interleaving of a few contenders through the rules that ship (coord/driver/rules). Each
// sees the line through its own stream, which lags. At any moment one may give up, expire, be removed by an operator, lose
// its connection, or downgrade.
//
// The protocol around the rules is that of a driver on ZooKeeper, which is harder than etcd. A look may be stale, but is
// never older than the contender's own join. A waiter watches the node that its rule names. A holder that had nobody at all
// ahead when it was granted leaves with a mark, which lets in the waiter for that node without another look.
//
// The judges do not ask the rules: no two holders may conflict, and no waiter that could go may be left with nothing to wake
// it.
//
// To show that the walk can find what it looks for, each of these is planted and must be found:
//
//	every holder leaves with the mark              a writer enters beside a reader
//	the downgrade leaves with the mark             a writer enters beside the downgraded reader
//	any change is taken for the mark               two holders
//	the own node is not looked at last             a waiter enters though its node was removed
//	the service expires before the client          two holders
//	a reader looks at the nearest only             a reader enters beside a writer
//	a weight set one too small                     a lost wake-up
//	a grant that is not announced                  a lost wake-up
//	a grant by a look in which others had joined   a lost wake-up
//	a semaphore that overlooks one                 too many permits out
//	a look older than the own join                 two holders
package model
