package deadlines

import "time"

// Answer is what etcd has answered to a renewal or to a linearizable read: when it was asked, and the raft term in the header
// of the answer.
type Answer struct {
	Sent time.Duration
	Term uint64
}

// Lease says until when an etcd lease is sure.
//
// Only etcd's leader counts, and it changes its own memory, without asking the others. So a leader that was stopped, and has
// been replaced meanwhile, may renew a lease that nobody else renews. Newer versions of etcd ask the others first, but not
// always. A linearizable read tells them apart, since a majority confirms it each time. Let R be a renewal and Q a read, both
// answered. If
//
//	the term in R's header is not below the term in Q's,
//
// then the lease is sure until TTL - TTL/50 - 50 ms after R or Q was sent, whichever was earlier. For whoever leads when Q is
// confirmed has the term of its header or a smaller one, and every later leader gives each lease its whole TTL. And R was
// renewed by a leader whose term is not below that in R's header: the one that confirmed Q, or a later one.
//
// This assumes that
//   - the clocks of the client and the leader run at the same rate, but for one part in a hundred
//   - the TTL is five minutes or less. Leases that last longer may have checkpoints, and an old one may shorten them
//   - whoever answers is etcd itself. A proxy that renews leases by itself fills in a header of its own.
type Lease struct {
	ttl     time.Duration
	renewal Answer
	read    Answer
}

// Granted records a new lease, and returns until when it is sure. A majority has agreed to it, so it needs no read.
func (l *Lease) Granted(a Answer, ttl time.Duration) time.Duration {
	l.ttl, l.renewal, l.read = ttl, a, a
	return l.Until()
}

// Renewed records the answer to a renewal, with the TTL that it names, and returns until when the lease is sure. If that is
// less than at first, it counts from now on.
func (l *Lease) Renewed(a Answer, ttl time.Duration) time.Duration {
	l.ttl = min(l.ttl, ttl)
	if a.Sent > l.renewal.Sent {
		l.renewal = a
	}
	return l.Until()
}

// Read records the answer to a linearizable read, or to a transaction, and returns until when the lease is sure. A
// transaction counts as well, since a majority has agreed to it.
func (l *Lease) Read(a Answer) time.Duration {
	if a.Sent > l.read.Sent {
		l.read = a
	}
	return l.Until()
}

// Until returns until when the lease is sure by the latest renewal and the latest read; zero: they say nothing, since
// somebody else may lead than the one that renewed. What was returned before stays true.
func (l *Lease) Until() time.Duration {
	if l.Outdated() {
		return 0
	}
	return min(l.renewal.Sent, l.read.Sent) + l.ttl - l.ttl/50 - 50*time.Millisecond
}

// Outdated reports whether the latest renewal has a smaller term than the latest read. Then it says nothing, and the lease
// has to be renewed again, at once.
func (l *Lease) Outdated() bool { return l.renewal.Term < l.read.Term }
