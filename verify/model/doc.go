// Package model walks every interleaving of a few contenders through the rules that ship (coord/driver/rules). Each
// sees the line through a stream of its own that lags, and at any moment gives up, expires, is removed by an operator,
// loses its connection, or downgrades.
//
// The protocol around the rules is that of a driver on ZooKeeper, the harder of the two: a look may be stale but is
// never older than the own join; a waiter watches the node that its rule names; whoever had nobody at all ahead when
// granted leaves with a mark, which lets in whoever waits for that node without another look.
//
// The judges do not ask the rules: there must be no two conflicting holders, and no waiter that could go and that
// nothing will wake.
//
// To show that the walk can find what it looks for, each of these is planted and must be found:
//
//	every holder leaves with the mark         a writer enters beside a reader
//	the downgrade leaves with the mark        a writer enters beside the downgraded reader
//	any change is taken for the mark          two holders
//	the own node is not looked at last        one enters though its node was removed
//	the service expires before the client     two holders
//	a reader looks at the nearest only        a reader enters beside a writer
//	a weight set one too small                a lost wake-up
//	a grant that is not announced             a lost wake-up
//	a grant by a look in which others had joined   a lost wake-up
//	a semaphore that overlooks one            too many permits out
//	a look older than the own join            two holders
package model
