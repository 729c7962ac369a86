package timed

import (
	"time"

	"github.com/turnwise/turnwise/coord/driver/deadlines"
)

// Links is the rule that ships.
type Links struct{}

const (
	tick   = time.Second
	moment = tick / 5 // from one thing in a tick to the next, longer than a 64th of the timeout
	now    = 1000 * tick
)

func ago(age uint8) time.Duration { return now - time.Duration(age)*tick }

// Connected is the rule for a new connection.
func (Links) Connected(z *ZooKeeper, k *Known, asked uint8) {
	*k = Known{touched: min(k.touched, asked), commit: k.commit}
}

// Answered feeds all that is known to the code that ships, then the new link, and keeps what that makes of it.
func (Links) Answered(z *ZooKeeper, k *Known, e Exchange) {
	if e.Kind == Ping {
		return
	}
	c := link(k, e)
	// The code says until when it believes, by the older of two times. Asked a second time, with a commit of just now, it
	// says the other.
	recent := *k
	recent.commit = 0
	touched := z.age(z.links(&recent), c)
	if e.Kind == Write {
		k.commit = min(k.commit, e.Sent)
	}
	if until := z.age(z.links(k), c); until != max(touched, k.commit) {
		panic("the code that ships goes by something else than touches and commits")
	}
	k.touched = touched
	k.add(e)
}

// Left goes by the deadline of the code that ships.
func (Links) Left(z *ZooKeeper, k *Known) int { return z.ticks(z.links(k).Until()) }

// Tidy drops links that were sent before what is known to be touched: nothing earlier can be of use.
func (Links) Tidy(z *ZooKeeper, k *Known, _ uint8) int {
	if !z.Leaders && !z.Syncs && !z.Reconnects { // there are only commits, and each is newer than what it shows
		k.commit = 0
	}
	n := 0
	for n < int(k.n) && k.exchanges[n].sent >= k.touched {
		n++
	}
	return n
}

// add records an exchange, unless an earlier one says as much.
func (k *Known) add(e Exchange) {
	if k.n > 0 && k.exchanges[k.n-1].sent <= e.Sent {
		return
	}
	k.exchanges[k.n] = exchange{sent: e.Sent}
	k.n++
}

// link returns the newest link, in the order of the others: those of one tick are a moment apart.
func link(k *Known, e Exchange) deadlines.Link {
	after := 0
	for i := range e.Seen {
		if k.exchanges[i].answered == e.Sent {
			after++
		}
	}
	sent := ago(e.Sent) + time.Duration(after)*moment + moment/2
	return deadlines.Link{Sent: sent, Answered: now + tick*9/10, Commit: e.Kind == Write}
}

// links returns the value that a driver would have, by the calls that it would have made.
func (z *ZooKeeper) links(k *Known) *deadlines.Links {
	var l deadlines.Links
	timeout := time.Duration(z.Timeout) * tick
	l.Connected(ago(max(k.touched, k.commit)), timeout)
	if k.commit < k.touched {
		l.Answered(deadlines.Link{Sent: ago(k.commit), Answered: ago(k.commit), Commit: true})
	}
	l.Connected(ago(k.touched), timeout)
	rank := 0
	for i := range k.n {
		e := k.exchanges[i]
		if rank++; i > 0 && k.exchanges[i-1].answered != e.answered {
			rank = 1
		}
		l.Answered(deadlines.Link{Sent: ago(e.sent), Answered: ago(e.answered) + time.Duration(rank)*moment})
	}
	return &l
}

// age returns from how long ago the deadline counts once c is known.
func (z *ZooKeeper) age(l *deadlines.Links, c deadlines.Link) uint8 {
	return uint8(z.Timeout - z.ticks(l.Answered(c)))
}

// ticks returns for how many ticks from now on a deadline has not passed.
func (z *ZooKeeper) ticks(until time.Duration) int {
	left := until - now
	if left <= 0 {
		return 0
	}
	return int((left + tick - 1) / tick)
}
