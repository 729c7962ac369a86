// Package driverkit has what drivers have in common, for authors of any driver. A driver for a service on a network
// needs each of these, and each is easy to get slightly wrong:
//
//	Life       how long a session lasts, and what runs for it
//	Deliver    a join that reaches its caller or is taken back
//	UntilGone  a departure that does not rest until the node is gone
//	Deadline   until when a session is surely kept
//	Bell       how a waiter is woken
//	Doubt      what a holder does when it hears that its node is gone
//	Pause      how long to wait between tries
//	Max        a number that only grows
//	Room       how much of a line is kept in memory
//
// Nothing here knows any service; coord/zk and coord/etcd show how it is used.
package driverkit
