package register

import (
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver/deadlines"
)

// clock is what this process has seen of the store's clock, by its own: see deadlines.Samples. All times are since base.
type clock struct {
	base time.Time
	keep time.Duration // how long a sample is of use

	mu      sync.Mutex
	samples deadlines.Samples
}

func (c *clock) own(at time.Time) time.Duration { return at.Sub(c.base) }

// sampled takes in the answer to a request.
func (c *clock) sampled(it Item, sent, answered time.Time) {
	if it.Clock == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.samples.Add(deadlines.Sample{Sent: c.own(sent), Answered: c.own(answered), Store: it.Clock}, c.keep)
}

// renewed returns when a session with that TTL was renewed, at the latest, that a look has found.
func (c *clock) renewed(it Item, sent, answered time.Time, ttl time.Duration) time.Duration {
	if it.Clock == 0 || it.Age < 0 {
		return c.own(answered)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	look := deadlines.Sample{Sent: c.own(sent), Answered: c.own(answered), Store: it.Clock}
	return c.samples.Renewed(look, it.Clock-it.Age, ttl)
}

// machine tells machines apart, and one from itself after a restart.
type machine [16]byte
