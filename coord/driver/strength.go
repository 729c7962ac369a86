package driver

import (
	"fmt"
	"iter"
	"strings"
)

// Strength is what a service promises beyond the contract of this package. A program asks for what it needs
// with coord.Require, and gets an error instead of a service that promises less. docs/engines.md shows the strengths of
// all drivers, and coord/drivertest checks that they are true: what is promised is kept, and what is not promised is
// seen to fail.
//
// In a driver's strength the zero value of a field promises nothing; in a requirement it asks for nothing. It is true of a
// service that is set up as the driver's documentation asks. It says nothing about a lost disk, or a restored backup.
type Strength struct {
	Order    Order
	Death    Death
	Restart  Recall // what the service still knows when it has been restarted, even after a kill -9
	Failover Recall // what it still knows when another machine has taken over
	Tokens   Rise
	WakeUp   WakeUp
}

// Order is the order in which turns come.
type Order int

const (
	AnyOrder  Order = iota // nobody is promised a place
	FirstCome              // whoever joined first goes first, in whichever process
)

func (o Order) String() string { return word(o, "in any order", "first come, first served") }

// Death is how the service notices that a process has died. It is a set: neither way is stronger than the other, and a
// service may have both.
type Death int

const (
	// ByTTL: a session that has not been heard from for a TTL ends, whether its process is dead, stopped or cut off.
	ByTTL Death = 1 << iota

	// ByKernel: the kernel reports a crash or a kill -9 at once. Without ByTTL nothing else ends a session: a process that
	// is stopped keeps its holds for as long as it is stopped.
	ByKernel
)

func (d Death) String() string {
	return word(d, "by nobody", "by a TTL", "by the kernel", "by the kernel or a TTL")
}

// Recall is what a service still knows after something has happened to it.
type Recall int

const (
	// NoFailover is for Failover only: nobody takes over. A service without a fail-over has none that remembers, either.
	NoFailover Recall = iota - 1

	// Forgets: what it had answered may be gone, and nobody is told. The next one may enter beside a holder that still
	// believes in its hold.
	Forgets

	// ForgetsOpenly: what it had answered may be gone, but then all earlier sessions have ended, and nobody gets a turn
	// until the longest TTL has passed. So nobody enters beside a holder.
	ForgetsOpenly

	// Remembers: everything it had answered is still there. Sessions go on.
	Remembers
)

func (r Recall) String() string {
	if r == NoFailover {
		return "does not exist"
	}
	return word(r, "forgets silently", "forgets, but says so", "remembers every answered write")
}

// Rise says for how long tokens rise along a line.
type Rise int

const (
	RiseWhileRemembered Rise = iota // until the service forgets: then they may start again
	RiseForEver                     // even when a restart or a fail-over has made it forget all else
)

func (r Rise) String() string { return word(r, "rise as long as it remembers", "rise for ever") }

// WakeUp is how a waiter learns that somebody has left.
type WakeUp int

const (
	Polled WakeUp = iota // it asks again and again, which costs requests for as long as it waits
	Told                 // the service tells it
)

func (w WakeUp) String() string { return word(w, "poll", "are told") }

func word[T ~int](n T, words ...string) string {
	if n < 0 || int(n) >= len(words) {
		return fmt.Sprintf("unknown (%d)", int(n))
	}
	return words[n]
}

// Aspects yields what each field is about, and what it says about that, in the order of the fields.
// Together the two read as a sentence: "a restart", "forgets silently".
func (s Strength) Aspects() iter.Seq2[string, string] {
	return func(yield func(about, says string) bool) {
		_ = yield("turns come", s.Order.String()) &&
			yield("a death is noticed", s.Death.String()) &&
			yield("a restart", s.Restart.String()) &&
			yield("a fail-over", s.Failover.String()) &&
			yield("tokens", s.Tokens.String()) &&
			yield("waiters", s.WakeUp.String())
	}
}

func (s Strength) String() string {
	var all []string
	for about, says := range s.Aspects() {
		all = append(all, about+" "+says)
	}
	return strings.Join(all, "; ")
}

// Lacks returns, in one line, what needed asks for and the service does not promise, or "" if it promises all of it.
func (s Strength) Lacks(needed Strength) string {
	short := [...]bool{
		s.Order < needed.Order,
		needed.Death&^s.Death != 0,
		needed.Restart > Forgets && s.Restart < needed.Restart,
		needed.Failover > Forgets && s.Failover < needed.Failover,
		s.Tokens < needed.Tokens,
		s.WakeUp < needed.WakeUp,
	}
	var asked, promised []string
	next, stop := iter.Pull2(s.Aspects())
	defer stop()
	i := 0
	for about, says := range needed.Aspects() {
		if _, has, _ := next(); short[i] {
			asked, promised = append(asked, about+" "+says), append(promised, about+" "+has)
		}
		i++
	}
	if asked == nil {
		return ""
	}
	return fmt.Sprintf("asked for: %s; promised: %s", strings.Join(asked, ", "), strings.Join(promised, ", "))
}
