// Package driverkit has what drivers have in common, for authors of any driver. Each of these is easy to get slightly
// wrong:
//
//	Life       how long a session lasts, and what runs for it
//	Deadline   until when a session is surely kept
//	Deliver    a join that reaches its caller or is taken back
//	UntilGone  a departure that does not rest until the node is gone
//	Bell       how a waiter is woken
//	Doubt      what a holder does when it hears that its node is gone
//	Pause      how long to wait between tries; PollPause between looks
//	Max        a number that only grows
//	Room       how much of a line is kept in memory
//
// Nothing here knows any service. A driver whose service is asked for each node by itself needs all of it, as coord/zk and
// coord/etcd do. In coord/register, one clerk speaks for all of a line, and does the work of Deliver and UntilGone.
package driverkit
