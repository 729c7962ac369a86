package timed

import (
	"time"

	"github.com/turnwise/turnwise/coord/driver/deadlines"
)

// Register is one session on a store, whose holder is cut off after a renewal, and somebody who comes upon it later. There is
// nothing to walk: each case is one schedule, and a test goes through all of them. All times are true ones, from when the
// renewal was sent. Several who look on are no more than one: the first to end the session counts.
type Register struct {
	TTL    time.Duration
	Taken  time.Duration // when the store took the renewal
	Looked time.Duration // when the one who looks on saw it first
	Up     time.Duration // since when that one has sampled the store's clock
	Phase  time.Duration // of its samples: each quarter of the TTL
	Trip   time.Duration // how long each answer takes
	Early  bool          // before the look the store answers at the beginning of a trip, else at its end

	// The clocks run at these rates. The store's is set twice, and the walls of the holder and of the one who looks differ.
	Holder, Watcher, Store float64
	Steps                  [2]Step
	Walls                  time.Duration
}

// Step is a clock that is set: by how much, and when.
type Step struct{ By, At time.Duration }

// Believes returns until when the holder believes.
func (r *Register) Believes() time.Duration {
	return scale(deadlines.Swapped(0, r.TTL), 1/r.Holder)
}

func scale(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

// store is what the store's clock says.
func (r *Register) store(at time.Duration) time.Duration {
	says := scale(at, r.Store)
	for _, s := range r.Steps {
		if at >= s.At {
			says += s.By
		}
	}
	return says
}

// own is what the clock of the one who looks on says.
func (r *Register) own(at time.Duration) time.Duration { return scale(at, r.Watcher) }

// sample asks for the store's time, which the store looks up at that moment.
func (r *Register) sample(sent, at time.Duration) deadlines.Sample {
	return deadlines.Sample{Sent: r.own(sent), Answered: r.own(sent + r.Trip), Store: r.store(at)}
}

// WaitRule returns when a session was renewed at the latest, given the first look at it and the samples before, each a quarter
// of the TTL after the one before.
type WaitRule func(r *Register, look deadlines.Sample, before []deadlines.Sample) (since time.Duration)

// ShippedWait is the rule that ships.
func ShippedWait(r *Register, look deadlines.Sample, before []deadlines.Sample) time.Duration {
	var s deadlines.Samples
	for _, b := range before {
		s.Add(b, 2*r.TTL)
	}
	return s.Renewed(look, r.store(r.Taken), r.TTL)
}

// Ends returns when one who waits ends the session.
func (r *Register) Ends(rule WaitRule) time.Duration {
	var before []deadlines.Sample
	for at := r.Up + r.Phase; at+r.Trip <= r.Looked; at += r.TTL / 4 {
		if r.Early {
			before = append(before, r.sample(at, at))
		} else {
			before = append(before, r.sample(at, at+r.Trip))
		}
	}
	look := r.sample(r.Looked, r.Looked+r.Trip)
	still := deadlines.Standstill{First: look.Answered, Since: rule(r, look, before)}
	again := r.Looked
	for {
		left := still.Left(r.own(again), r.TTL)
		if left == 0 {
			return again
		}
		again += scale(left, 1/r.Watcher) + 1
	}
}

// Tries returns when one who tries again and again ends the session: suspected first, then convicted. late is by how much the
// store's clock is set forward in between.
func (r *Register) Tries(late time.Duration) time.Duration {
	at := r.Looked
	ages := func() (store, walls time.Duration) {
		return r.store(at) - r.store(r.Taken), r.own(at) + r.Walls
	}
	for store, walls := ages(); !deadlines.LooksDead(store, walls, r.TTL); store, walls = ages() {
		at += r.TTL / 64
	}
	suspected := r.store(at)
	for {
		store, walls := ages()
		if deadlines.Convict(store, walls, r.store(at)+late-suspected, r.TTL) {
			return at
		}
		at += r.TTL / 64
	}
}
