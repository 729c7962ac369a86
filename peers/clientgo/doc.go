// Package clientgo lets programs that lead by client-go's leader election, as those on controller-runtime do, lead by ours: first come,
// first served, on any service that turnwise knows, without a change of their own.
//
//	lock := clientgo.New(election.New(client, "reports"), id)
//	manager.New(config, manager.Options{LeaderElection: true, LeaderElectionResourceLockInterface: lock, …})
//
// It is a resourcelock.Interface. As long as client-go asks for the lock it stands for election, and client-go leads while ours leads.
//
// Whoever leads by client-go believes so for up to a LeaseDuration after he was last told, whatever becomes of the service meanwhile. So
// he is told only while the term is sure to last for as long as that. With the usual LeaseDuration of 15 s that takes sessions of 30 s:
// twice as long. client-go itself believes until RetryPeriod and RenewDeadline have both passed, so together they must be shorter than the
// LeaseDuration, in whole seconds, as the usual ones are. After a loss his place stays, and he is told nothing, until that time is over: so
// nobody leads beside him, or believes to have led all the while who has not. Only if an operator takes the leader's place away may another
// one lead beside him until then: Break no leader of client-go, but end its process. Coordinated elections (Coordinated: true) are not for it.
//
// A candidate that leads and cannot be told so, since its sessions are too short or the lease of [Beside] is out of its reach, makes way for
// another one after two LeaseDurations, and stands again after two more. The log of client-go says why. The name of a leader is shown up to its
// first 300 bytes, in a form that is safe to show: see coord.Printable.
//
// While programs change over, some lead by a Lease of Kubernetes and some by our election. See [Beside].
package clientgo
